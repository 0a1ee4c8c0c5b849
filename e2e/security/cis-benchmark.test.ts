import { lstat, readdir, readFile, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { connect, type ConnectionOptions } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { until } from '../harness/until.ts';
import { Caller, clientCertificate, serviceAccountToken } from './support/callers.ts';

/** The cluster has no option for security: every control holds by default. */
const machine = Machine.use();
let cluster: Cluster;
let anonymous: Caller;
let kubelet: { readonly host: string; readonly port: number };
const data = (...path: string[]) => join(cluster.dataDir, ...path);

beforeAll(async () => {
  // the modes of files do not depend on the umask of the shell
  const umask = process.umask(0);
  cluster = await machine.cluster({ spec: composition({ storage: 'embedded', runtime: 'process', network: 'host' }) });
  process.umask(umask);
  anonymous = new Caller(cluster, {});
  const { kubectl, api } = cluster;
  await kubectl.run(['create', 'secret', 'generic', 'plain', '--from-literal=word=findmeinthestore']);
  const volumes = [
    { name: 's', secret: { secretName: 'plain' } },
    { name: 'e', emptyDir: {} },
  ];
  const containers = [{ name: 'c', image: 'host', command: ['sh', '-c', 'umask; sleep 1000'] }];
  await api.json('POST', '/api/v1/namespaces/default/pods', {
    body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers, volumes, terminationGracePeriodSeconds: 0 } },
  });
  await api.until('the pod runs', api.pods('default'), (pods: readonly (Item & { readonly status?: { readonly phase?: string } })[]) =>
    pods.some(({ status }) => status?.phase === 'Running'),
  );
  type Node = Item & {
    readonly status: {
      readonly addresses: readonly { readonly type: string; readonly address: string }[];
      readonly daemonEndpoints: { readonly kubeletEndpoint: { readonly Port: number } };
    };
  };
  const { status } = await api.get<Node>('/api/v1/nodes/node-a');
  const { address = '127.0.0.1' } = status.addresses.find(({ type }) => type === 'InternalIP') ?? {};
  kubelet = { host: address, port: status.daemonEndpoints.kubeletEndpoint.Port };
});
afterAll(() => anonymous.close());

const apiServer = () => ({ host: new URL(cluster.api.server).hostname, port: cluster.port });

/** Returns the protocol and cipher of a handshake, or the code of its failure. */
function handshake(server: { readonly host: string; readonly port: number }, options: ConnectionOptions): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ ...server, rejectUnauthorized: false, ...options }, () => {
      resolve(`${socket.getProtocol()} ${socket.getCipher().name}`);
      socket.destroy();
    });
    socket.once('error', () => resolve('refused'));
  });
}

async function expectStrongTls(server: { readonly host: string; readonly port: number }): Promise<void> {
  const legacy = { minVersion: 'TLSv1', ciphers: 'ALL@SECLEVEL=0' } as const;
  expect(await handshake(server, { ...legacy, maxVersion: 'TLSv1.1' })).toBe('refused');
  for (const ciphers of ['ECDHE-ECDSA-AES128-SHA', 'ECDHE-ECDSA-AES256-SHA384', 'AES128-GCM-SHA256', 'NULL', 'ECDHE-ECDSA-AES128-CCM'])
    expect([ciphers, await handshake(server, { ...legacy, ciphers: `${ciphers}@SECLEVEL=0`, maxVersion: 'TLSv1.2' })]).toEqual([
      ciphers,
      'refused',
    ]);
  for (const ciphers of ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'])
    expect(await handshake(server, { ciphers, maxVersion: 'TLSv1.2' })).toBe(`TLSv1.2 ${ciphers}`);
  expect(await handshake(server, {})).toMatch(/^TLSv1\.3 TLS_/);
}

const rejectedPod = (spec: object) =>
  cluster.api.call('POST', '/api/v1/namespaces/locked/pods', {
    body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' }, spec: { containers: [{ name: 'c', image: 'host' }], ...spec } },
  });

/** What the pods of a node own: its mode is theirs, below a directory that only the owner enters. */
const ownedByPods = [/^plugins\/kubelet\/(pods|logs)(\/|$)/, /^plugins\/runtime-process\/pods\/[^/]+\/./];

/** Returns the entries of the data directory with a mode for others than the owner. */
async function opened(directory: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(directory)) {
    const path = join(directory, entry);
    const name = relative(cluster.dataDir, path);
    const info = await lstat(path).catch(() => undefined);
    if (info === undefined || info.isSymbolicLink() || ownedByPods.some((pattern) => pattern.test(name))) continue;
    if ((info.mode & 0o077) !== 0 || (info.isFile() && (info.mode & 0o100) !== 0)) found.push(`${name} ${(info.mode & 0o777).toString(8)}`);
    if (info.isDirectory()) found.push(...(await opened(path)));
  }
  return found;
}

async function storedBytes(directory: string): Promise<Buffer> {
  const names = await readdir(directory, { recursive: true });
  const parts = await Promise.all(
    names.map(async (name) => ((await stat(join(directory, name))).isFile() ? readFile(join(directory, name)) : Buffer.alloc(0))),
  );
  return Buffer.concat(parts);
}

interface AuditEvent {
  readonly level: string;
  readonly verb: string;
  readonly user: { readonly username?: string };
  readonly objectRef?: { readonly resource?: string; readonly name?: string };
  readonly requestObject?: unknown;
  readonly responseObject?: unknown;
}
const auditText = () => readFile(data('plugins', 'audit-log', 'audit.log'), 'utf8');

/** The controls that this test checks, by their number in the CIS Kubernetes Benchmark 1.11. docs/security.md describes each. */
const controls: Readonly<Record<string, () => Promise<void>>> = {
  '1.1.11': async () => {
    expect((await stat(data('plugins', 'storage-embedded'))).mode & 0o777).toBe(0o700);
  },
  '1.1.13': async () => {
    expect((await stat(cluster.kubeconfig)).mode & 0o777).toBe(0o600);
  },
  '1.1.20': async () => {
    expect((await stat(cluster.dataDir)).mode & 0o777).toBe(0o700);
    expect(await until('the modes of all files', () => opened(cluster.dataDir))).toEqual([]);
    for (const directory of ['kubelet', 'runtime-process']) expect((await stat(data('plugins', directory))).mode & 0o777).toBe(0o700);
    expect(await until('the log of the pod', () => cluster.kubectl.run(['logs', 'p']))).toBe('0022\n');
    const volumes = data('plugins', 'kubelet', 'pods');
    const names = (await readdir(volumes, { recursive: true })).filter((name) => /\/volumes(\/(projected|secret)(\/[^/]+)?)?$/.test(name));
    const modes = await Promise.all(names.map(async (name) => ((await stat(join(volumes, name))).mode & 0o777).toString(8)));
    expect([...new Set(modes)]).toEqual(['755']);
  },
  '1.2.1': async () => {
    for (const path of ['/healthz', '/livez', '/readyz', '/version']) expect((await anonymous.call('GET', path)).status).toBe(200);
    for (const path of ['/api', '/apis', '/metrics', '/api/v1/namespaces/kube-public/configmaps/cluster-info', '/openapi/v2'])
      expect([path, (await anonymous.call('GET', path)).status]).toEqual([path, 401]);
  },
  '1.2.2': async () => {
    const headers = { authorization: `Basic ${Buffer.from('admin:admin').toString('base64')}` };
    expect((await anonymous.call('GET', '/api', { headers })).status).toBe(401);
    expect((await anonymous.call('GET', '/version', { headers: { authorization: 'Bearer admin' } })).status).toBe(401);
  },
  '1.2.6': async () => {
    const user = new Caller(cluster, await clientCertificate(cluster, 'somebody'));
    expect((await user.call('GET', '/api/v1/nodes')).status).toBe(403);
    user.close();
  },
  '1.2.7': async () => {
    const node = new Caller(cluster, await clientCertificate(cluster, 'system:node:node-a', ['system:nodes']));
    await until(
      'the node reads the Secret of its pod',
      async () => (await node.call('GET', '/api/v1/namespaces/default/secrets/plain')).status === 200,
    );
    expect((await node.call('GET', '/api/v1/namespaces/kube-system/secrets/other')).status).toBe(403);
    node.close();
  },
  '1.2.8': async () => {
    await cluster.kubectl.run(['create', 'rolebinding', 'viewer', '--clusterrole=view', '--user=vera']);
    const vera = new Caller(cluster, await clientCertificate(cluster, 'vera'));
    await until('vera reads pods', async () => (await vera.call('GET', '/api/v1/namespaces/default/pods')).status === 200);
    expect((await vera.call('GET', '/api/v1/namespaces/default/secrets')).status).toBe(403);
    vera.close();
  },
  '1.2.12': async () => {
    const { spec } = await cluster.api.get<Item & { readonly spec: { readonly serviceAccountName?: string } }>(
      '/api/v1/namespaces/default/pods/p',
    );
    expect(spec.serviceAccountName).toBe('default');
  },
  '1.2.13': async () => {
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' } };
    expect((await cluster.api.call('POST', '/api/v1/namespaces/absent/configmaps', { body })).status).toBe(404);
    expect((await cluster.api.call('DELETE', '/api/v1/namespaces/kube-system')).status).toBe(403);
  },
  '1.2.14': async () => {
    const node = new Caller(cluster, await clientCertificate(cluster, 'system:node:node-b', ['system:nodes']));
    const label = { body: { metadata: { labels: { a: 'b' } } }, type: 'application/merge-patch+json' };
    const reply = await node.call('PATCH', '/api/v1/nodes/node-a', label);
    expect([reply.status, reply.body]).toEqual([403, expect.stringContaining('is not allowed to modify node')]);
    node.close();
  },
  '1.2.15': async () => {
    for (const path of ['/debug/pprof/', '/debug/pprof/profile']) expect((await cluster.api.call('GET', path)).status).toBe(404);
    expect((await cluster.api.call('GET', '/api/v1/nodes/node-a/proxy/debug/pprof/')).status).toBe(404);
  },
  '1.2.16': async () => {
    const created = await until('the event is written', async () =>
      (await auditText()).split('\n').find((line) => line.includes('"verb":"create"') && line.includes('"name":"plain"')),
    );
    expect(JSON.parse(created) as AuditEvent).toMatchObject({
      level: 'Metadata',
      user: { username: 'kubernetes-admin' },
      objectRef: { resource: 'secrets' },
    });
    expect((await stat(data('plugins', 'audit-log', 'audit.log'))).mode & 0o777).toBe(0o600);
  },
  '1.2.21': async () => {
    await cluster.kubectl.run(['create', 'serviceaccount', 'former']);
    const caller = new Caller(cluster, { token: await serviceAccountToken(cluster, 'default', 'former') });
    expect((await caller.call('GET', '/version')).status).toBe(200);
    await cluster.api.json('DELETE', '/api/v1/namespaces/default/serviceaccounts/former');
    await until('the token is rejected', async () => (await caller.call('GET', '/version')).status === 401);
    caller.close();
  },
  '1.2.27': async () => {
    // a file may be replaced between its listing and its reading
    const stored = await until('the files of the storage', () => storedBytes(data('plugins', 'storage-embedded')));
    expect(stored.includes('k8s:enc:aesgcm:v1:generated:')).toBe(true);
    for (const plain of ['findmeinthestore', Buffer.from('findmeinthestore').toString('base64')])
      expect(stored.includes(plain)).toBe(false);
    expect((await stat(data('plugins', 'apiserver', 'encryption', 'generated.key'))).mode & 0o777).toBe(0o600);
  },
  '1.2.29': () => expectStrongTls(apiServer()),
  '1.2.30': async () => {
    const path = '/api/v1/namespaces/default/pods/p';
    interface Projected {
      readonly spec: {
        readonly volumes: readonly {
          readonly projected?: { readonly sources: readonly { readonly serviceAccountToken?: { readonly expirationSeconds: number } }[] };
        }[];
      };
    }
    const { spec } = await cluster.api.get<Projected>(path);
    const seconds = spec.volumes
      .flatMap(({ projected }) => projected?.sources ?? [])
      .flatMap(({ serviceAccountToken }) => serviceAccountToken?.expirationSeconds ?? []);
    expect(seconds).toEqual([3607]);
    const { uid } = (await cluster.api.get<Item>(path)).metadata;
    const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: 'p', uid };
    const token = await serviceAccountToken(cluster, 'default', 'default', { boundObjectRef, expirationSeconds: 3607 });
    const { exp, iat } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as {
      readonly exp: number;
      readonly iat: number;
    };
    expect(exp - iat).toBe(3607);
    expect(
      (await cluster.api.get<{ readonly items: readonly { readonly type?: string }[] }>('/api/v1/secrets')).items.filter(
        ({ type }) => type === 'kubernetes.io/service-account-token',
      ),
    ).toEqual([]);
  },
  '1.3.3': async () => {
    const users = new Set(
      (await auditText()).split('\n').flatMap((line) => /"username":"(system:serviceaccount:kube-system:[^"]+)"/.exec(line)?.[1] ?? []),
    );
    expect(users.size).toBeGreaterThan(2);
  },
  '1.3.5': async () => {
    await cluster.api.until('the CA is published', '/api/v1/configmaps', (all) =>
      all.some(({ metadata }) => metadata.name === 'kube-root-ca.crt'),
    );
  },
  '3.2.1': async () => {
    const events = (await auditText())
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line) as AuditEvent);
    expect(new Set(events.map(({ level }) => level))).toEqual(new Set(['Metadata']));
    expect(events.filter(({ requestObject, responseObject }) => requestObject !== undefined || responseObject !== undefined)).toEqual([]);
    expect(await auditText()).not.toContain('findmeinthestore');
  },
  '3.2.2': async () => {
    await cluster.kubectl.run(['exec', 'p', '--', 'true']);
    const token = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: 'x' } };
    await cluster.api.json('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { body: token });
    await cluster.api.get('/api/v1/namespaces/default/secrets');
    for (const wanted of ['"subresource":"exec"', '"resource":"tokenreviews"', '"verb":"list","user":{"username":"kubernetes-admin"'])
      await until(`an event with ${wanted}`, async () => (await auditText()).includes(wanted));
  },
  '4.2.1': async () => {
    const url = `https://${kubelet.host}:${kubelet.port}`;
    expect(await statusOf(`${url}/pods`)).toBe(401);
    expect(await statusOf(`${url}/metrics`)).toBe(401);
    expect(await statusOf(`${url}/run/default/p/c`)).toBe(401);
  },
  '4.2.2': async () => {
    const user = await clientCertificate(cluster, 'somebody');
    expect(await statusOf(`https://${kubelet.host}:${kubelet.port}/pods`, user)).toBe(403);
  },
  '4.2.4': async () => {
    await expect(statusOf(`https://${kubelet.host}:10255/pods`)).rejects.toThrow(/ECONNREFUSED/);
  },
  '4.2.12': () => expectStrongTls(kubelet),
  '5.2.2': async () => {
    await cluster.kubectl.run(['create', 'namespace', 'locked']);
    await cluster.kubectl.run(['label', 'namespace', 'locked', 'pod-security.kubernetes.io/enforce=restricted']);
    for (const spec of [
      { hostPID: true },
      { hostIPC: true },
      { hostNetwork: true },
      { containers: [{ name: 'c', image: 'host', securityContext: { privileged: true } }] },
      { volumes: [{ name: 'h', hostPath: { path: '/' } }] },
    ])
      expect([spec, (await rejectedPod(spec)).status]).toEqual([spec, 403]);
  },
};

async function statusOf(url: string, credentials: { readonly cert?: string; readonly key?: string } = {}): Promise<number> {
  const { request } = await import('node:https');
  return new Promise((resolve, reject) => {
    request(url, { agent: false, ca: cluster.api.tls.ca, rejectUnauthorized: false, timeout: 30_000, ...credentials }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .once('error', reject)
      .end();
  });
}

describe('control of the CIS Kubernetes Benchmark', () => {
  it.each(Object.entries(controls))('%s holds by default', async (_, check) => {
    await check();
  });
});

describe('docs/security.md', () => {
  it('names this test for the controls that it checks, and for no other', async () => {
    const page = await readFile(join(root, 'docs', 'security.md'), 'utf8');
    const rows = page.split('\n').filter((line) => /^\| \d+(?:\.\d+){1,2} /.test(line));
    const named = rows.filter((line) => line.includes('cis-benchmark')).map((line) => line.split(' ')[1] ?? '');
    expect(named.sort()).toEqual(Object.keys(controls).sort());
    expect(rows.length).toBeGreaterThan(70);
  });
});
