import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
// an ordinary user may not listen on port 53 of the DNS Service
const servesDns = process.getuid?.() === 0;
const kubectl = ['/usr/bin/kubectl', '/usr/local/bin/kubectl'].find((path) => existsSync(path));

/** A program that uses the official JavaScript client as it is documented for pods. */
const listPods = `
const { KubeConfig, CoreV1Api } = require('/opt/app/node_modules/@kubernetes/client-node');
const config = new KubeConfig();
config.loadFromCluster();
config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace: 'default' }).then(({ items }) => console.log(items.map(({ metadata }) => metadata.name).sort().join()));
`;

const volumes = (directory: string) => [
  { name: 'modules', hostPath: { path: modules, type: 'Directory' } },
  { name: 'host', hostPath: { path: directory } },
  { name: 'scratch', emptyDir: {} },
  { name: 'memory', emptyDir: { medium: 'Memory' } },
  { name: 'settings', configMap: { name: 'settings' } },
  { name: 'secret', secret: { secretName: 'secret', defaultMode: 0o400 } },
  { name: 'labels', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
  {
    name: 'all',
    projected: {
      sources: [
        { configMap: { name: 'settings' } },
        { secret: { name: 'secret' } },
        { downwardAPI: { items: [{ path: 'name', fieldRef: { fieldPath: 'metadata.name' } }] } },
        { serviceAccountToken: { path: 'token', audience: 'vault', expirationSeconds: 600 } },
      ],
    },
  },
];

const mounts = [
  { name: 'modules', mountPath: '/opt/app/node_modules', readOnly: true },
  { name: 'host', mountPath: '/host-files' },
  { name: 'scratch', mountPath: '/data' },
  { name: 'settings', mountPath: '/data/settings' },
  { name: 'memory', mountPath: '/cache' },
  { name: 'settings', mountPath: '/etc/app/config' },
  { name: 'settings', mountPath: '/etc/app/app.conf', subPath: 'app.conf' },
  { name: 'secret', mountPath: '/etc/app/secret', readOnly: true },
  { name: 'labels', mountPath: '/etc/podinfo' },
  { name: 'all', mountPath: '/projected' },
  { name: 'scratch', mountPath: '/srv/part', subPath: 'part' },
];

const podOf = (directory: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'client', labels: { app: 'client' } },
  spec: {
    hostname: 'my-host',
    hostAliases: [{ ip: '192.0.2.1', hostnames: ['alias.example.com'] }],
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'exec sleep 3600'], volumeMounts: mounts }],
    volumes: volumes(directory),
  },
});

describe.skipIf(process.getuid?.() !== 0)('files of a pod of the embedded composition', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp('/var/tmp/oarlock-host-');
    await writeFile(join(directory, 'file'), 'host\n');
    const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host' });
    cluster = await machine.cluster({ spec: { ...spec, dns: { use: 'dns-server', config: { address: '127.0.0.1' } } } });
    const reader = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' };
    await cluster.kubectl.apply([
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { 'app.conf': 'one' } },
      { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'secret' }, stringData: { password: 'hidden' } },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'default-view' },
        roleRef: reader,
        subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'default' }],
      },
      podOf(directory),
    ]);
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/client', '--timeout=180s']);
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const inPod = async (...command: readonly string[]) => {
    const { stdout, stderr } = await cluster.kubectl.try(['exec', 'client', '--', ...command]);
    return `${stdout}${stderr}`;
  };
  const sh = (script: string) => inPod('sh', '-c', script);

  it('include the service account, which in-cluster clients find', async () => {
    const account = '/var/run/secrets/kubernetes.io/serviceaccount';
    expect(await inPod('ls', account)).toBe('ca.crt\nnamespace\ntoken\n');
    expect(await sh(`cat ${account}/namespace; touch ${account}/x 2>&1`)).toMatch(/^default.*Read-only file system/s);
    expect(await inPod('node', '-e', listPods)).toBe('client\n');
  });

  it.skipIf(kubectl === undefined)('let kubectl, with client-go, use the service account', async () => {
    expect(await sh(`env -u KUBECONFIG ${kubectl} get pods -o name; ${kubectl} auth whoami -o jsonpath={.status.userInfo.username}`)).toBe(
      'pod/client\nsystem:serviceaccount:default:default',
    );
  });

  it('include every kind of volume at its mount path', async () => {
    const script =
      'cat /host-files/file /etc/app/config/app.conf /etc/app/app.conf /data/settings/app.conf /etc/app/secret/password /etc/podinfo/labels /projected/app.conf /projected/password /projected/name; wc -c < /projected/token; echo part > /srv/part/file && cat /data/part/file; echo cached > /cache/file && stat -f -c %T /cache';
    const output = await sh(script);
    expect(output.replace(/\d{3,}/, 'LENGTH')).toBe('host\noneoneonehiddenapp="client"onehiddenclientLENGTH\npart\ntmpfs\n');
    expect(
      await sh(
        'for path in /etc/app/config /etc/app/app.conf /etc/app/secret /data/settings; do test -w $path && echo writable; done; true',
      ),
    ).toBe('');
    for (const path of ['/data', '/etc/app', '/host-files', '/projected', '/opt/app']) expect(existsSync(path)).toBe(false);
  });

  it('show changes of their objects, such as rotated tokens', async () => {
    await cluster.kubectl.run(['patch', 'configmap', 'settings', '--patch', '{"data":{"app.conf":"two"}}']);
    await until('the change is visible', async () => (await sh('cat /etc/app/config/app.conf /projected/app.conf')) === 'twotwo');
    expect(await sh('cat /etc/app/app.conf')).toBe('one'); // a subPath is not updated, as with every runtime
    const token = '/var/run/secrets/kubernetes.io/serviceaccount';
    expect(await sh(`readlink ${token}/token ${token}/..data`)).toMatch(/^\.\.data\/token\n\.\.\d{4}_/);
  });

  it('include hosts, resolver, host name and termination log', async () => {
    const output = await sh('hostname; cat /etc/hosts; cat /etc/resolv.conf; ls -l /dev/termination-log');
    expect(output).toMatch(/^my-host\n# Kubernetes-managed hosts file/);
    expect(output).toContain('192.0.2.1\talias.example.com');
    if (servesDns) {
      expect(output).toContain('search default.svc.cluster.local svc.cluster.local cluster.local');
      expect(await sh('getent hosts kubernetes.default')).toMatch(/^127\.\S+\.1 +kubernetes\.default\.svc\.cluster\.local/);
    }
    expect(output).toContain('-rw-rw-rw-');
    expect(hostname()).not.toBe('my-host');
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'last-words' },
      spec: {
        restartPolicy: 'Never',
        containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'echo -n goodbye > /dev/termination-log'] }],
      },
    });
    await cluster.kubectl.run(['wait', '--for=jsonpath={.status.phase}=Succeeded', 'pod/last-words', '--timeout=180s']);
    const path = 'jsonpath={.status.containerStatuses[0].state.terminated.message}';
    expect(await cluster.kubectl.run(['get', 'pod', 'last-words', '-o', path])).toBe('goodbye');
  });

  it('include the service account of privileged pods', async () => {
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'privileged' },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [{ name: 'main', image: 'host', command: ['sleep', '3600'], securityContext: { privileged: true } }],
      },
    });
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/privileged', '--timeout=180s']);
    const account = '/var/run/secrets/kubernetes.io/serviceaccount';
    expect(await cluster.kubectl.run(['exec', 'privileged', '--', 'cat', `${account}/namespace`])).toBe('default');
    expect(existsSync(dirname(account))).toBe(false);
  });

  it('stay when the cluster is killed and started again', async () => {
    await cluster.kill9();
    await cluster.up();
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/client', '--timeout=180s']);
    expect(await sh('cat /data/part/file /etc/app/config/app.conf')).toBe('part\ntwo');
    expect(await inPod('node', '-e', listPods)).toContain('client');
    expect(await cluster.kubectl.run(['get', 'pod', 'client', '-o', 'jsonpath={.status.containerStatuses[0].restartCount}'])).toBe('0');
  });
});
