import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ApiError, type Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { etcdMissing } from '../harness/etcd.ts';
import { Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import type { Finished } from '../harness/programs.ts';

const reason = etcdMissing();

interface Listed {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly Item[];
}

/** Returns the output of a command that succeeded. */
function expectDone({ code, stdout, stderr }: Finished): string {
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** Returns the type of the first event of a watch, or the code of its error. */
async function firstEvent({ api }: Cluster, path: string, resourceVersion: string): Promise<string | number | undefined> {
  const stop = new AbortController();
  try {
    for await (const { type, object } of api.watch<Item & { readonly code?: number }>(path, resourceVersion, stop.signal))
      if (type !== 'BOOKMARK') return type === 'ERROR' ? object.code : type;
    return undefined;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    throw error;
  } finally {
    stop.abort();
  }
}

/** The exit code of Node.js for a process whose event loop became empty while the command was awaited. */
const unsettled = 13;

describe.skipIf(reason !== undefined)(`a command on etcd${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let dir: string;
  const file = (name: string) => join(dir, name);
  const spec = (endpoint: string, prefix: string) => ({
    roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
    storage: { use: 'storage-etcd', config: { endpoints: [endpoint], prefix } },
    encryption: {},
    runtimes: ['runtime-simulated'],
    settings: { kubelet: { port: 0 } },
  });
  /** Every command that needs no other arguments than its files. `up` and `node join` are the subject of other journeys. */
  const commands = (dataDir: string): readonly (readonly string[])[] => [
    ['status'],
    ['kubeconfig'],
    ['config', 'validate', '-f', cluster.file],
    ['config', 'print', '-f', cluster.file],
    ['plugins', 'list'],
    ['token', 'create'],
    ['token', 'create', '--role', 'server'],
    ['keys', 'status'],
    ['keys', 'rotate'],
    ['keys', 'rotate', '--end'],
    ['keys', 'ca', 'add'],
    ['keys', 'front-proxy-ca', 'add'],
    ['keys', 'encryption', 'add', '-f', cluster.file],
    ['keys', 'encryption', 'end', '-f', cluster.file],
    ['auth', 'why', 'ada', 'get', 'pods'],
    ['server', 'list'],
    ['server', 'remove', 'unknown'],
    ['server', 'join', '--token', 'nonsense', 'https://127.0.0.1:1'],
    ['trace'],
    ['explain', 'pod', 'unknown'],
    ['explain', 'traffic', 'unknown', '10.0.0.1', '80'],
    ['backup', '-o', join(dataDir, '..', 'all.backup'), '-f', cluster.file],
    ['restore', '-i', file('first.backup'), '-f', cluster.file],
    ['down'],
  ];
  const withDataDir = (args: readonly string[], dataDir: string) =>
    ['config', 'plugins'].includes(args[0] ?? '') ? args : [...args, '--data-dir', dataDir];
  const expectFinished = (args: readonly string[], { code, stdout, stderr }: Finished) => {
    expect([args, code]).not.toEqual([args, unsettled]);
    expect([args, stderr]).toEqual([args, expect.not.stringContaining('ended before the command was finished')]);
    // a command prints its effect, or the reason why it has none
    expect([args, `${stdout}${stderr}`.trim()]).not.toEqual([args, '']);
  };

  beforeAll(async () => {
    dir = machine.path('files');
    await mkdir(dir);
    const { endpoint } = await machine.etcd();
    cluster = await machine.cluster({ spec: spec(endpoint, '/first') });
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'kept' }, stringData: { word: 'open' } };
    await cluster.kubectl.apply(secret);
  });

  it('backs up a running cluster, and a stopped one', async () => {
    const running = await cluster.oarlock('backup', '-o', file('first.backup'));
    expect([running.code, running.stderr]).toEqual([0, '']);
    expect(running.stdout).toMatch(/^wrote \d+ entries as of revision \d+ and the keys to /);
    await cluster.stop();
    const stopped = await cluster.oarlock('backup', '-o', file('stopped.backup'), '-f', cluster.file);
    expect([stopped.code, stopped.stderr]).toEqual([0, '']);
    expect(stopped.stdout).toMatch(/^wrote \d+ entries as of revision \d+ and the keys to /);
  });

  it('moves from embedded storage to etcd and back: revisions never go back, and clients of the former cluster list again', async () => {
    const { endpoint } = await machine.etcd();
    const onEtcd = spec(endpoint, '/moved');
    const onDisk = { ...onEtcd, storage: 'storage-embedded' };
    const secrets = '/api/v1/namespaces/default/secrets';
    let former = await machine.cluster({ spec: onDisk });
    await former.kubectl.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'kept' }, stringData: { word: 'open' } });
    for (const [name, nextSpec] of Object.entries({ etcd: onEtcd, embedded: onDisk })) {
      const { metadata: last } = await former.api.get<Listed>(secrets);
      const ca = await readFile(join(former.dataDir, 'pki', 'ca.crt'), 'utf8');
      expectDone(await former.oarlock('down'));
      await former.daemon.exit;
      expectDone(await former.oarlock('backup', '-f', former.file, '-o', file(`to-${name}.backup`)));
      const next = await machine.prepare({ spec: nextSpec, args: name === 'etcd' ? ['--init'] : [] });
      const restored = await next.oarlock('restore', '-f', next.file, '-i', file(`to-${name}.backup`));
      expect(expectDone(restored)).not.toContain('restart all clients');
      await next.up();
      // the same CA: the admin of the former cluster is accepted
      expect(await readFile(join(next.dataDir, 'pki', 'ca.crt'), 'utf8')).toBe(ca);
      expect(await next.api.get(`${secrets}/kept`)).toMatchObject({ data: { word: 'b3Blbg==' } });
      const listed = await next.api.get<Listed>(secrets);
      expect(listed.items.map(({ metadata }) => Number(metadata.resourceVersion) > Number(last.resourceVersion))).toEqual([true]);
      expect([name, await firstEvent(next, secrets, last.resourceVersion)]).toEqual([name, 410]);
      // a watch of the new cluster continues where its list was
      await next.kubectl.run(['annotate', 'secret', 'kept', `moved=${name}`, '--overwrite']);
      expect([name, await firstEvent(next, secrets, listed.metadata.resourceVersion)]).toEqual([name, 'MODIFIED']);
      former = next;
    }
    await former.stop();
  });

  it('finishes with a message while no cluster runs', async () => {
    for (const args of commands(cluster.dataDir)) expectFinished(args, await runOarlock(withDataDir(args, cluster.dataDir)));
  });

  it('finishes with a message while the cluster runs', async () => {
    await cluster.up();
    for (const args of commands(cluster.dataDir)) expectFinished(args, await runOarlock(withDataDir(args, cluster.dataDir)));
    await cluster.daemon.exit;
  });

  it('finishes with a message if etcd does not answer', async () => {
    const unreachable = file('unreachable.yaml');
    const { storage: _, ...rest } = spec('', '/first');
    const storage = { use: 'storage-etcd', config: { endpoints: ['http://127.0.0.1:1'], requestTimeoutSeconds: 1 } };
    await writeFile(unreachable, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { ...rest, storage } }));
    for (const args of [
      ['backup', '-o', file('none.backup'), '-f', unreachable],
      ['restore', '-i', file('first.backup'), '-f', unreachable],
      ['up', '-f', unreachable],
    ]) {
      const done = await runOarlock(withDataDir(args, cluster.dataDir));
      expectFinished(args, done);
      expect([args, done.code]).toEqual([args, 1]);
    }
  });
});
