import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { httpGet } from '../harness/http.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { Daemon, freePort, mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

const prometheus = '/usr/bin/prometheus';
const python = '/usr/bin/python3';
const pythonClient = '/usr/lib/python3/dist-packages/kubernetes/__init__.py';
const isMissing = (file: string) => !existsSync(file) && !everythingIsNeeded;
const titleOf = (name: string, file: string, debian: string) =>
  `${name}${isMissing(file) ? ` (skipped: Debian's ${debian} is not installed)` : ''}`;

const script = `
import json, sys
from kubernetes import client, config, dynamic, utils, watch
config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
result = {}
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name='python')))
labels = {'app': 'web'}
container = client.V1Container(name='main', image='host', command=['sh', '-c', 'echo started; exec sleep 3600'])
template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels),
    spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1))
spec = client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template)
for account in watch.Watch().stream(core.list_namespaced_service_account, 'python', timeout_seconds=60):
    break
apps.create_namespaced_deployment('python', client.V1Deployment(metadata=client.V1ObjectMeta(name='web'), spec=spec))
follow = watch.Watch()
for event in follow.stream(apps.list_namespaced_deployment, 'python', timeout_seconds=120):
    if event['object'].status.available_replicas == 1:
        follow.stop()
pod = core.list_namespaced_pod('python', label_selector='app=web').items[0]
result['log'] = core.read_namespaced_pod_log(pod.metadata.name, 'python')
result['scale'] = apps.patch_namespaced_deployment_scale('web', 'python', {'spec': {'replicas': 2}}).spec.replicas
resource = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version='v1', kind='ConfigMap')
resource.create(namespace='python', body={'kind': 'ConfigMap', 'apiVersion': 'v1', 'metadata': {'name': 'dynamic'}, 'data': {'a': 'b'}})
result['dynamic'] = resource.get(namespace='python', name='dynamic').data.a
utils.create_from_dict(client.ApiClient(), {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'made', 'namespace': 'python'}, 'stringData': {'a': 'b'}})
result['secret'] = core.read_namespaced_secret('made', 'python').data
try:
    core.read_namespaced_config_map('absent', 'python')
except client.ApiException as error:
    result['error'] = [error.status, json.loads(error.body)['reason']]
result['version'] = client.VersionApi().get_code().minor
result['apis'] = len(client.ApisApi().get_api_versions().groups) > 15
core.delete_namespace('python')
print(json.dumps(result))
`;

interface Target {
  readonly labels: Readonly<Record<string, string>>;
  readonly health: string;
  readonly lastError: string;
}

describe('third-party programs', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
  });

  it.skipIf(isMissing(pythonClient))(
    titleOf("Kubernetes' Python client creates, follows, patches and deletes", pythonClient, 'python3-kubernetes'),
    async () => {
      const file = machine.path('client.py');
      await writeFile(file, script);
      expect(JSON.parse(await mustRun(python, [file, cluster.kubeconfig]))).toEqual({
        log: 'started\n',
        scale: 2,
        dynamic: 'b',
        secret: { a: 'Yg==' },
        error: [404, 'NotFound'],
        version: '36',
        apis: true,
      });
    },
  );

  it.skipIf(isMissing(prometheus))(
    titleOf('Prometheus scrapes the API server, and the kubelet through it', prometheus, 'prometheus'),
    async () => {
      const { api, kubectl } = cluster;
      await kubectl.run(['create', 'namespace', 'monitoring']);
      await kubectl.run(['create', 'serviceaccount', 'prometheus', '-n', 'monitoring']);
      await kubectl.apply(permissions);
      const [token, ca, config, port] = [machine.path('token'), machine.path('ca.crt'), machine.path('prometheus.yaml'), await freePort()];
      await writeFile(token, await kubectl.run(['create', 'token', 'prometheus', '-n', 'monitoring']), { mode: 0o600 });
      await writeFile(ca, api.tls.ca);
      const node = `/api/v1/nodes/${cluster.nodeName}/proxy`;
      const paths = [
        '/metrics',
        '/metrics/slis',
        `${node}/metrics`,
        `${node}/metrics/cadvisor`,
        `${node}/metrics/resource`,
        `${node}/metrics/probes`,
      ];
      const jobs = paths.map((path) => ({
        job_name: path,
        scheme: 'https',
        metrics_path: path,
        authorization: { credentials_file: token },
        tls_config: { ca_file: ca },
        static_configs: [{ targets: [new URL(api.server).host] }],
      }));
      await writeFile(config, stringify({ global: { scrape_interval: '1s', scrape_timeout: '1s' }, scrape_configs: jobs }));
      // the first result of a health check
      expect((await api.call('GET', '/livez')).status).toBe(200);
      const daemon = new Daemon(prometheus, [
        `--config.file=${config}`,
        `--storage.tsdb.path=${machine.path('tsdb')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ]);
      machine.undo('prometheus', () => daemon.stop());
      await daemon.line(/Server is ready to receive web requests/);
      const query = async <T>(path: string) =>
        (JSON.parse((await httpGet(`http://127.0.0.1:${port}${path}`)).body) as { readonly data: T }).data;
      // a busy machine may answer a scrape after its limit of a second
      await untilValue(
        'every target is scraped',
        async () => {
          const { activeTargets } = await query<{ readonly activeTargets: readonly Target[] }>('/api/v1/targets?state=active');
          return activeTargets.map(({ labels, health, lastError }) => [labels['job'], health, lastError]).sort();
        },
        (states) => JSON.stringify(states) === JSON.stringify(paths.map((path) => [path, 'up', '']).sort()),
      );
      const count = (expression: string) =>
        until(`a value of ${expression}`, async () => {
          type Result = { readonly result: readonly { readonly value: readonly [number, string] }[] };
          const { result } = await query<Result>(`/api/v1/query?query=${encodeURIComponent(expression)}`);
          return Number(result[0]?.value[1] ?? '0') > 0;
        });
      await count('sum(kubernetes_healthcheck{job="/metrics/slis"})');
      await count('sum(apiserver_request_total{job="/metrics"})');
      await count(`sum(node_memory_working_set_bytes{job="${node}/metrics/resource"})`);
      expect(daemon.output).not.toMatch(/level=error/);
    },
  );
});

/** The rules that Prometheus has in its documentation, with the kubelet's metrics through the API server. */
const permissions = [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'prometheus' },
    rules: [
      { apiGroups: [''], resources: ['nodes/proxy', 'nodes/metrics'], verbs: ['get'] },
      { nonResourceURLs: ['/metrics', '/metrics/slis'], verbs: ['get'] },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'prometheus' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'prometheus' },
    subjects: [{ kind: 'ServiceAccount', name: 'prometheus', namespace: 'monitoring' }],
  },
];
