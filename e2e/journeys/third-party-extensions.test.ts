import { mkdir } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { ExtensionServer, type ExtensionOptions } from '../fixtures/extension-server.ts';
import type { Api, Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { TokenClient } from '../harness/token-client.ts';
import { until, untilValue } from '../harness/until.ts';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}
type ApiService = Item & { readonly status?: { readonly conditions?: readonly Condition[] } };

const apiServices = '/apis/apiregistration.k8s.io/v1/apiservices';
const rbac = '/apis/rbac.authorization.k8s.io/v1';
const merge = { 'content-type': 'application/merge-patch+json' };

const machine = Machine.use();
let cluster: Cluster;
let api: Api;
beforeAll(async () => {
  cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
  ({ api } = cluster);
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** Creates a service account with the given permissions, and returns a client with its token. */
async function accountWith(name: string, rules: readonly Rule[], roles: readonly string[] = []): Promise<TokenClient> {
  const namespace = 'kube-system';
  const subjects = [{ kind: 'ServiceAccount', name, namespace }];
  const role = (kind: string, roleName: string) => ({ apiGroup: 'rbac.authorization.k8s.io', kind, name: roleName });
  await api.json('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, { body: { metadata: { name } } });
  await api.json('POST', `${rbac}/clusterroles`, { body: { metadata: { name: `system:${name}` }, rules } });
  for (const each of [`system:${name}`, ...roles])
    await api.json('POST', `${rbac}/clusterrolebindings`, {
      body: { metadata: { name: `${name}:${each}` }, subjects, roleRef: role('ClusterRole', each) },
    });
  await api.json('POST', `${rbac}/namespaces/${namespace}/rolebindings`, {
    body: { metadata: { name: `${name}-auth-reader` }, subjects, roleRef: role('Role', 'extension-apiserver-authentication-reader') },
  });
  const token = (await cluster.kubectl.run(['create', 'token', name, '-n', namespace])).trim();
  return new TokenClient({ server: api.server, ca: api.tls.ca, token });
}

async function startExtension(options: Omit<ExtensionOptions, 'dir'>): Promise<ExtensionServer> {
  const dir = machine.path('extension');
  await mkdir(dir);
  const server = await ExtensionServer.start({ ...options, dir });
  machine.undo('extension server', () => server.stop());
  return server;
}

/** Creates a Service without selector whose only endpoint is a port of this machine. */
async function publish(name: string, port: number): Promise<void> {
  const namespace = 'kube-system';
  await api.json('POST', `/api/v1/namespaces/${namespace}/services`, {
    body: { metadata: { name }, spec: { ports: [{ name: 'https', port: 443, targetPort: port }] } },
  });
  await api.json('POST', `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, {
    body: {
      metadata: { name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['127.0.0.1'], conditions: { ready: true } }],
      ports: [{ name: 'https', port, protocol: 'TCP' }],
    },
  });
}

async function untilAvailable(name: string, status: string, reason?: string): Promise<Condition> {
  const conditionOf = (service: ApiService | undefined) => service?.status?.conditions?.find(({ type }) => type === 'Available');
  const [found] = await api.until<ApiService>(
    `${name} has availability ${status}`,
    `${apiServices}?fieldSelector=metadata.name%3D${name}`,
    ([one]) => {
      const condition = conditionOf(one);
      return condition?.status === status && (reason === undefined || condition.reason === reason);
    },
  );
  return conditionOf(found) as Condition;
}

describe('metrics-server', () => {
  it('serves kubectl top with a token alone: front proxy, delegated authorization, kubelets', async () => {
    const read = ['get', 'list', 'watch'];
    const client = await accountWith(
      'metrics-server',
      [
        { apiGroups: [''], resources: ['nodes/metrics'], verbs: ['get'] },
        { apiGroups: [''], resources: ['pods', 'nodes'], verbs: read },
      ],
      ['system:auth-delegator'],
    );
    const nodeMetrics = async () => {
      interface NodeItem extends Item {
        readonly status: {
          readonly addresses: readonly { readonly type: string; readonly address: string }[];
          readonly daemonEndpoints: { readonly kubeletEndpoint: { readonly Port: number } };
        };
      }
      const { items } = await client.json<{ readonly items: readonly NodeItem[] }>('GET', '/api/v1/nodes');
      return Promise.all(
        items.map(async ({ metadata, status }) => {
          const address = status.addresses.find(({ type }) => type === 'InternalIP')?.address ?? '';
          const kubelet = client.at(`https://${address}:${status.daemonEndpoints.kubeletEndpoint.Port}`);
          const answer = await kubelet.call('GET', '/metrics/resource');
          const memory = /^node_memory_working_set_bytes (\S+)/m.exec(answer.body)?.[1];
          if (answer.status !== 200 || memory === undefined)
            throw new Error(`the kubelet answered ${answer.status}: ${answer.body.slice(0, 500)}`);
          const usage = { cpu: '100m', memory: String(Math.round(Number(memory))) };
          return { metadata: { name: metadata.name }, timestamp: new Date().toISOString(), window: '10s', usage };
        }),
      );
    };
    const server = await startExtension({
      serviceName: 'metrics-server.kube-system.svc',
      group: 'metrics.k8s.io',
      version: 'v1beta1',
      client,
      resources: [
        { name: 'nodes', kind: 'NodeMetrics', namespaced: false, list: nodeMetrics },
        { name: 'pods', kind: 'PodMetrics', namespaced: true, list: async () => [] },
      ],
    });
    await publish('metrics-server', server.port);
    const spec = {
      group: 'metrics.k8s.io',
      version: 'v1beta1',
      service: { name: 'metrics-server', namespace: 'kube-system' },
      insecureSkipTLSVerify: true,
      groupPriorityMinimum: 100,
      versionPriority: 100,
    };
    await api.json('POST', apiServices, { body: { metadata: { name: 'v1beta1.metrics.k8s.io' }, spec } });
    expect(await untilAvailable('v1beta1.metrics.k8s.io', 'True')).toMatchObject({ reason: 'Passed', message: 'all checks passed' });
    // the API server proxies a moment after the condition was written
    await untilValue(
      'kubectl top nodes',
      () => cluster.kubectl.run(['top', 'nodes']),
      (output) => new RegExp(`^NAME .*CPU.*\n${cluster.nodeName} +100m +\\d+% +\\d+Mi`).test(output),
    );
    expect(server.users).toContain('kubernetes-admin');
    // its role is part of view by aggregation
    const labels = Object.fromEntries(['view', 'edit', 'admin'].map((each) => [`rbac.authorization.k8s.io/aggregate-to-${each}`, 'true']));
    const rules = [{ apiGroups: ['metrics.k8s.io'], resources: ['pods', 'nodes'], verbs: read }];
    await api.json('POST', `${rbac}/clusterroles`, { body: { metadata: { name: 'system:aggregated-metrics-reader', labels }, rules } });
    type Role = Item & { readonly rules: readonly { readonly apiGroups?: readonly string[] }[] };
    await api.until<Role>('view contains the rule', `${rbac}/clusterroles?fieldSelector=metadata.name%3Dview`, ([view]) =>
      (view?.rules ?? []).some(({ apiGroups }) => apiGroups?.includes('metrics.k8s.io')),
    );
    // a request that does not come through the front proxy is anonymous, whatever its headers name
    const direct = await client
      .at(`https://127.0.0.1:${server.port}`, server.certificate)
      .call('GET', '/apis/metrics.k8s.io/v1beta1/nodes', { headers: { 'x-remote-user': 'admin' } });
    expect(direct.status).toBe(401);
  });
});

describe('OLM', () => {
  it('sees the availability of its aggregated API follow the package server', async () => {
    const client = await accountWith(
      'packageserver',
      [{ apiGroups: ['operators.coreos.com'], resources: ['catalogsources'], verbs: ['get', 'list', 'watch'] }],
      ['system:auth-delegator'],
    );
    const server = await startExtension({
      serviceName: 'packageserver-service.kube-system.svc',
      group: 'packages.operators.coreos.com',
      version: 'v1',
      client,
      resources: [
        {
          name: 'packagemanifests',
          kind: 'PackageManifest',
          namespaced: true,
          list: async () => [{ metadata: { name: 'etcd', namespace: 'default' }, status: { catalogSource: 'operatorhub' } }],
        },
      ],
    });
    const name = 'v1.packages.operators.coreos.com';
    const spec = {
      group: 'packages.operators.coreos.com',
      version: 'v1',
      service: { name: 'packageserver-service', namespace: 'kube-system', port: 443 },
      caBundle: Buffer.from(server.certificate).toString('base64'),
      groupPriorityMinimum: 2000,
      versionPriority: 15,
    };
    await api.json('POST', apiServices, { body: { metadata: { name }, spec } });
    expect((await untilAvailable(name, 'False', 'ServiceNotFound')).message).toBe(
      'service/packageserver-service in "kube-system" is not present',
    );
    // other groups are served meanwhile
    expect((await cluster.kubectl.try(['api-resources', '--api-group=apps'])).stdout).toContain('deployments');
    expect((await api.call('GET', '/apis/packages.operators.coreos.com/v1')).status).toBe(503);
    await publish('packageserver-service', server.port);
    await untilAvailable(name, 'True', 'Passed');
    const list = await until('the list is proxied', () =>
      api.get<{ readonly items: readonly Item[] }>('/apis/packages.operators.coreos.com/v1/namespaces/default/packagemanifests'),
    );
    expect(list.items.map(({ metadata }) => metadata.name)).toEqual(['etcd']);
    expect(await cluster.kubectl.run(['get', 'packagemanifests', '-o', 'name'])).toBe(
      'packagemanifest.packages.operators.coreos.com/etcd\n',
    );
    // a CA that did not issue the certificate
    await api.json('PATCH', `${apiServices}/${name}`, {
      headers: merge,
      body: { spec: { caBundle: Buffer.from(api.tls.ca).toString('base64') } },
    });
    await untilAvailable(name, 'False', 'FailedDiscoveryCheck');
    await api.json('PATCH', `${apiServices}/${name}`, { headers: merge, body: { spec } });
    await untilAvailable(name, 'True', 'Passed');
    await server.stop();
    expect((await untilAvailable(name, 'False', 'FailedDiscoveryCheck')).message).toContain('failing or missing response from https://');
    await api.json('DELETE', `${apiServices}/${name}`);
    await untilValue(
      'the group is no longer served',
      async () => (await api.call('GET', '/apis/packages.operators.coreos.com/v1')).status,
      (status) => status === 404,
    );
  });
});
