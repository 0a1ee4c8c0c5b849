import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { etcdMissing } from '../harness/etcd.ts';
import { Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import type { Finished } from '../harness/programs.ts';

const reason = etcdMissing();

/** The exit code of Node.js for a process whose event loop became empty while the command was awaited. */
const unsettled = 13;

describe.skipIf(reason !== undefined)(`a command on etcd${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let dir: string;
  /** What the command printed that wrote the backup of the stopped cluster. */
  let stoppedBackup: string;
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
    stoppedBackup = stopped.stdout;
  });

  it('restores into etcd and into storage-embedded, and the restored clusters serve the objects', async () => {
    const { endpoint } = await machine.etcd();
    for (const [name, storage] of [
      ['etcd', { use: 'storage-etcd', config: { endpoints: [endpoint], prefix: '/second' } }],
      ['embedded', 'storage-embedded'],
    ] as const) {
      const restored = await machine.prepare({ spec: { ...spec(endpoint, '/second'), storage } });
      const before = /as of revision (\d+) /.exec(stoppedBackup)?.[1];
      const { code, stdout, stderr } = await restored.oarlock('restore', '-i', file('stopped.backup'), '-f', restored.file);
      expect([name, code, stderr]).toEqual([name, 0, '']);
      expect(stdout).toMatch(/^restored \d+ entries of /);
      expect(stdout).not.toContain('restart all clients');
      await restored.up();
      const { metadata } = await restored.api.get<Item>('/api/v1/namespaces/default/secrets/kept');
      expect([name, Number(metadata.resourceVersion) > Number(before)]).toEqual([name, true]);
      expect(await restored.api.get('/api/v1/namespaces/default/secrets/kept')).toMatchObject({ data: { word: 'b3Blbg==' } });
      // the same CA: the admin of the first cluster is accepted
      expect(await readFile(join(restored.dataDir, 'pki', 'ca.crt'), 'utf8')).toBe(
        await readFile(join(cluster.dataDir, 'pki', 'ca.crt'), 'utf8'),
      );
      await restored.stop();
    }
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
