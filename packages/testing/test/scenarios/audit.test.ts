import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditEvent } from '@oarlock/spi/audit';
import type { ClusterDocument } from '@oarlock/cluster/cluster-file/cluster-schema';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse } from 'yaml';

let folder: string;
let cluster: TestCluster;
let send: (method: string, path: string, body?: unknown, as?: string) => Promise<{ readonly code: number; readonly text: string }>;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-audit-'));
});
afterEach(async () => {
  await cluster.stop();
  await rm(folder, { recursive: true });
});

async function start(policy: string, audit: NonNullable<NonNullable<ClusterDocument['spec']>['audit']>): Promise<void> {
  const auditPolicy = join(folder, 'policy.yaml');
  await writeFile(auditPolicy, `apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n${policy}`);
  cluster = await startCluster({
    roles: ['apiserver'],
    spec: { auditPolicy, audit, admission: ['admission-namespace-lifecycle', 'admission-pod-security'] },
  });
  const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as {
    clusters: [{ cluster: Record<string, string> }];
    users: [{ user: Record<string, string> }];
  };
  const text = (data: string | undefined) => Buffer.from(data ?? '', 'base64').toString('utf8');
  const ca = text(config.clusters[0].cluster['certificate-authority-data']);
  const cert = text(config.users[0].user['client-certificate-data']);
  const key = text(config.users[0].user['client-key-data']);
  send = (method, path, body, as) =>
    new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', ...(as !== undefined && { 'impersonate-user': as }) };
      const call = request(new URL(path, cluster.server), { method, ca, cert, key, agent: false, headers }, (answer) => {
        let all = '';
        answer.setEncoding('utf8').on('data', (part: string) => (all += part));
        answer.once('end', () => resolve({ code: answer.statusCode ?? 0, text: all }));
      });
      call.once('error', reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
}

const maps = '/api/v1/namespaces/default/configmaps';
const map = (name: string, data = 'x') => ({ metadata: { name }, data: { data } });
const events = (text: string) => text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as AuditEvent]));

it('audit log contains the events and decisions of its policy, in rotated files, bounded in number and age', async () => {
  const logs = join(folder, 'logs');
  const path = join(logs, 'audit.log');
  await mkdir(logs);
  for (const name of ['audit-2020-01-01T00-00-00.000.log', 'audit-2020-01-01T00-00-00.000.log.gz', 'other-2020-01-01T00-00-00.000.log'])
    await writeFile(join(logs, name), 'old');
  await writeFile(path, '');
  await chmod(path, 0o644);
  await start(
    `  - {level: None, nonResourceURLs: ['/livez*']}
  - {level: Metadata, resources: [{group: '', resources: [secrets]}]}
  - {level: Request, resources: [{group: '', resources: [configmaps, pods]}]}
  - {level: Metadata, nonResourceURLs: ['*']}
  - {level: None}
`,
    [{ use: 'audit-log', config: { path, maxSizeMegabytes: 0.02, maxBackups: 2, maxAgeDays: 1 } }],
  );
  expect((await readdir(logs)).sort()).toEqual(['audit.log', 'other-2020-01-01T00-00-00.000.log']);

  expect((await send('GET', '/livez')).code).toBe(200);
  expect((await send('POST', '/api/v1/namespaces/default/secrets', { metadata: { name: 's' }, stringData: { k: 'hidden' } })).code).toBe(
    201,
  );
  expect((await send('GET', maps, undefined, 'ada')).code).toBe(403);
  const labels = { 'pod-security.kubernetes.io/enforce': 'baseline', 'pod-security.kubernetes.io/audit': 'restricted' };
  expect((await send('POST', '/api/v1/namespaces', { metadata: { name: 'team', labels } })).code).toBe(201);
  const pod = (name: string, spec: object = {}) => ({ metadata: { name }, spec: { containers: [{ name: 'c', image: 'i' }], ...spec } });
  expect((await send('POST', '/api/v1/namespaces/team/pods', pod('good'))).code).toBe(201);
  expect((await send('POST', '/api/v1/namespaces/team/pods', pod('bad', { hostNetwork: true }))).code).toBe(403);
  const early = events(await readFile(path, 'utf8'));
  // in blocking mode an event is written before the response ends: all but the last events exist
  const of = (uri: string) => early.filter(({ requestURI }) => requestURI.startsWith(uri));
  expect(early.map(({ stage }) => stage)).not.toContain('RequestReceived');
  expect(of('/livez')).toEqual([]);
  expect(JSON.stringify(of('/api/v1/namespaces/default/secrets'))).not.toContain('hidden');
  expect(of(maps)[0]).toMatchObject({
    impersonatedUser: { username: 'ada' },
    responseStatus: { code: 403 },
    annotations: { 'authorization.k8s.io/decision': 'forbid' },
  });
  expect(of('/api/v1/namespaces/team/pods')[0]).toMatchObject({
    level: 'Request',
    requestObject: { metadata: { name: 'good' } },
    annotations: {
      'authorization.k8s.io/decision': 'allow',
      'pod-security.kubernetes.io/enforce-policy': 'baseline:latest',
      'pod-security.kubernetes.io/audit-violations': expect.stringContaining('would violate PodSecurity "restricted:latest": ') as string,
    },
  });
  for (const { annotations } of early) expect(Object.keys(annotations ?? {})).toContain('authorization.k8s.io/decision');

  const names = Array.from({ length: 80 }, (_, n) => `m-${n}`);
  for (const name of names) expect((await send('POST', maps, map(name, 'd'.repeat(1_000)))).code).toBe(201);
  await cluster.stop();
  const kept = (await readdir(logs)).filter((name) => name.startsWith('audit')).sort();
  expect(kept).toHaveLength(3);
  const backups = kept.filter((name) => name !== 'audit.log');
  const texts = await Promise.all([...backups, 'audit.log'].map((name) => readFile(join(logs, name), 'utf8')));
  for (const [at, name] of [...backups, 'audit.log'].entries()) {
    const { mode, size } = await stat(join(logs, name));
    expect(mode & 0o777).toBe(0o600);
    expect(size).toBeLessThanOrEqual(0.02 * 1024 * 1024);
    if (at < 2) expect(size).toBeGreaterThan(0.01 * 1024 * 1024);
  }
  // the newest files, complete and in order: only the oldest were deleted
  const loggedNames = texts
    .flatMap(events)
    .filter(({ verb }) => verb === 'create')
    .map(({ objectRef }) => objectRef?.name ?? '');
  expect(loggedNames.length).toBeGreaterThan(20);
  expect(loggedNames).toEqual(names.slice(-loggedNames.length));
});

/** An audit webhook that receives event lists and responds on request. */
class Receiver {
  readonly lists: (readonly AuditEvent[])[] = [];
  readonly #server: Server;
  #open = false;
  readonly #held: ServerResponse[] = [];
  #asked: (() => void) | undefined;
  readonly asked = new Promise<void>((resolve) => {
    this.#asked = resolve;
  });

  constructor() {
    this.#server = createServer((incoming, answer) => {
      let body = '';
      incoming.setEncoding('utf8').on('data', (part: string) => (body += part));
      incoming.once('end', () => {
        this.lists.push((JSON.parse(body) as { readonly items: readonly AuditEvent[] }).items);
        this.#asked?.();
        if (this.#open) answer.end();
        else this.#held.push(answer);
      });
    });
  }
  async listen(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, '127.0.0.1', resolve);
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/events`;
  }
  release(): void {
    this.#open = true;
    for (const answer of this.#held.splice(0)) answer.end();
  }
  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

it('an unresponsive audit webhook does not block requests and receives the buffered events when it recovers', async () => {
  const receiver = new Receiver();
  const url = await receiver.listen();
  const config = { url, mode: 'batch', bufferSize: 6, maxBatchSize: 2, maxBatchWaitSeconds: 0, throttle: null };
  await start(
    `  - {level: Metadata, verbs: [create], resources: [{group: '', resources: [configmaps]}], namespaces: [default]}\n  - {level: None}\n`,
    [{ use: 'audit-webhook', config }],
  );
  try {
    expect((await send('POST', maps, map('first'))).code).toBe(201);
    await receiver.asked; // no response yet
    for (let n = 0; n < 20; n++) expect((await send('POST', maps, map(`m-${n}`))).code).toBe(201);
    const dropped = Number(/^audit_webhook_dropped_total\S* (\d+)$/m.exec((await send('GET', '/metrics')).text)?.[1]);
    expect(dropped).toBe(15);
    receiver.release();
    await cluster.stop(); // flushes the buffer
    const received = receiver.lists.flat();
    expect(received.map(({ objectRef }) => objectRef?.name)).toEqual(['first', 'm-0', 'm-1', 'm-2', 'm-3', 'm-4']);
    expect(Math.max(...receiver.lists.map((list) => list.length))).toBe(2);
    for (const { annotations } of received) expect(annotations?.['authorization.k8s.io/decision']).toBe('allow');
  } finally {
    receiver.close();
  }
});
