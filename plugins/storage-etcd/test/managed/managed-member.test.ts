import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { StorageServer, type StorageProcess } from '@oarlock/spi/storage-server';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { EtcdConnection } from '../../src/client/etcd-connection.ts';
import { rpcs } from '../../src/rpc/etcd-messages.ts';
import { findProcess } from '../../src/managed/process-table.ts';
import { MemberFiles, type MemberState } from '../../src/managed/member-state.ts';
import plugin from '../../src/plugin.ts';
import { etcdMissing } from '../support/etcd-server.ts';
import { keys, S3Server } from '../support/s3-server.ts';
import { makeTlsFiles } from '../support/tls-files.ts';

const missing = etcdMissing();
let tls: Awaited<ReturnType<typeof makeTlsFiles>>;
let base: string;
beforeAll(async () => {
  tls = await makeTlsFiles();
  base = await mkdtemp(join(tmpdir(), 'oarlock-managed-'));
});
afterAll(async () => {
  await tls.remove();
  await rm(base, { recursive: true, force: true });
});
const running = new Set<Server>();
afterEach(async () => {
  for (const server of running) await server.stop();
});

async function freePorts(): Promise<{ readonly clientPort: number; readonly peerPort: number }> {
  const servers = [createServer(), createServer()];
  await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))));
  const [clientPort = 0, peerPort = 0] = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return { clientPort, peerPort };
}

interface ServerStart {
  readonly address?: string;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly signal?: AbortSignal;
}

/** A server process with a storage plugin. */
class Server {
  readonly name: string;
  readonly files: MemberFiles;
  readonly #managed: { readonly peerPort: number };
  #host: PluginHost | undefined;
  #program: StorageProcess | undefined;

  private constructor(name: string, managed: { readonly peerPort: number }) {
    this.name = name;
    this.#managed = managed;
    this.files = new MemberFiles(join(base, name, 'storage-etcd'));
  }
  static async create(name: string, settings: object = {}): Promise<Server> {
    return new Server(name, { ...(await freePorts()), ...settings });
  }
  get peerPort(): number {
    return this.#managed.peerPort;
  }

  get storage(): StorageDriver {
    if (this.#host === undefined) throw new Error(`${this.name} does not run`);
    return this.#host.get(Storage);
  }

  async start(
    state?: MemberState,
    { address = '127.0.0.1', clock = systemClock, log = silentLogger, signal }: ServerStart = {},
  ): Promise<void> {
    if (state !== undefined) await this.files.write(state);
    running.add(this);
    const own: StorageServer = {
      ...{ name: this.name, cluster: 'tested', address },
      openAuthority: async () => ({
        signing: await readFile(tls.server.caFile, 'utf8'),
        caFile: tls.server.caFile,
        issue: async () => tls.server,
      }),
      run: async (start) => {
        const program = await start();
        this.#program = program;
        return program;
      },
    };
    this.#host = new PluginHost({ dataDir: join(base, this.name), clock, log })
      .provide(StorageServer, own)
      .add({ plugin, config: { managed: this.#managed } });
    await this.#host.start(signal);
  }
  /** Stops the plugin, and the member unless it has to survive as after a crash of the process. */
  async stop({ crash = false } = {}): Promise<void> {
    await this.#host?.stop();
    this.#host = undefined;
    if (!crash) {
      await this.#program?.stop();
      running.delete(this);
    }
  }
  async pid(): Promise<number | undefined> {
    return (await findProcess(`--data-dir=${this.files.data}`))?.pid;
  }
}
/** Raises the alarm that etcd raises when the data of a member differs. */
async function raiseCorrupt(server: Server, name: string): Promise<void> {
  const settings = { requestTimeoutMs: 10_000, keepaliveMs: 10_000, dialTimeoutMs: 2000 };
  const connection = new EtcdConnection({
    ...{ endpoints: server.storage.members?.endpoints() ?? [], ...tls.server, ...settings },
    ...{ clock: systemClock, log: silentLogger, random: Math.random },
  });
  try {
    const { members } = await connection.call(rpcs.memberList, {}, { repeated: true });
    const { ID: memberID } = members.find((member) => member.name === name) ?? {};
    await connection.call(rpcs.alarm, { action: 1, alarm: 2, ...(memberID && { memberID }) }, { repeated: true });
  } finally {
    connection.close();
  }
}
const put = (storage: StorageDriver, key: string) => storage.commit([{ key, value: Buffer.from('x') }], []);
const rolesOf = async (server: Server) => (await server.storage.members?.list())?.map(({ name, role }) => `${name} ${role}`);

describe.skipIf(missing !== undefined)(`a managed member${missing === undefined ? '' : ` (${missing})`}`, () => {
  it('bootstraps, survives the process of its server and is adopted', async () => {
    const server = await Server.create('adopted');
    await server.start();
    await put(server.storage, '/a');
    const pid = await server.pid();
    expect(pid).toBeDefined();
    await server.stop({ crash: true });
    await server.start();
    expect(await server.pid()).toBe(pid);
    expect((await server.storage.get('/a')).entry).toBeDefined();
    await server.stop();
    expect(await server.pid()).toBeUndefined();
  });

  it('joins as a learner, is promoted and can be removed', async () => {
    const [first, second] = [await Server.create('first'), await Server.create('second')];
    await first.start();
    await put(first.storage, '/a');
    await second.start({ state: 'joining', endpoints: first.storage.members?.endpoints() ?? [] });
    expect((await second.storage.get('/a')).entry).toBeDefined();
    expect(await rolesOf(second)).toEqual(['first Leader', 'second Follower']);
    expect(await second.files.read()).toMatchObject({ state: 'member', name: 'second' });
    expect(await first.storage.members?.remove('second')).toBe(true);
    expect(await first.storage.members?.remove('second')).toBe(false);
    expect(await rolesOf(first)).toEqual(['first Leader']);
    await put(first.storage, '/b');
  });

  it('is removed with its alarm CORRUPT, which all members enforce', async () => {
    const [first, second] = [await Server.create('sound'), await Server.create('corrupt')];
    await first.start();
    await second.start({ state: 'joining', endpoints: first.storage.members?.endpoints() ?? [] });
    await raiseCorrupt(first, 'corrupt');
    await expect(put(first.storage, '/a')).rejects.toMatchObject({ code: 'Corrupt' });
    await expect.poll(() => first.storage.checkHealth?.()).toEqual({ healthy: false, reason: expect.stringContaining('CORRUPT') });
    expect((await first.storage.members?.list())?.map(({ name, alarms }) => [name, alarms])).toEqual([
      ['corrupt', ['CORRUPT']],
      ['sound', []],
    ]);
    // no command ends this alarm while the member is one of the cluster
    expect(await first.storage.members?.disarm()).toEqual([]);
    expect(await first.storage.members?.remove('corrupt')).toBe(true);
    await put(first.storage, '/a');
    await expect.poll(() => first.storage.checkHealth?.()).toEqual({ healthy: true });
    await second.stop();
    await rm(second.files.directory, { recursive: true });
    await second.start({ state: 'joining', endpoints: first.storage.members?.endpoints() ?? [] });
    expect((await second.storage.get('/a')).entry).toBeDefined();
  });

  it('restores a snapshot as the only member of a new cluster', async () => {
    const server = await Server.create('restored');
    await server.start();
    await put(server.storage, '/before');
    const snapshot = await server.storage.members?.saveSnapshot('one');
    await put(server.storage, '/after');
    await server.stop();
    await server.start({ state: 'restoring', name: 'restored', snapshot: snapshot?.path ?? '' });
    expect((await server.storage.get('/before')).entry).toBeDefined();
    expect((await server.storage.get('/after')).entry).toBeUndefined();
  });

  it('copies snapshots to a store, from which a server without data restores one', async () => {
    const store = await new S3Server(Date.now).start();
    try {
      const credentialsFile = join(base, 'credentials');
      await writeFile(
        credentialsFile,
        `[default]\naws_access_key_id=${keys.accessKeyId}\naws_secret_access_key=${keys.secretAccessKey}\n`,
        {
          mode: 0o600,
        },
      );
      const s3 = { endpoint: store.endpoint, bucket: store.bucket, folder: 'tested', credentialsFile };
      const [server, empty] = [await Server.create('copied', { snapshots: { s3 } }), await Server.create('new', { snapshots: { s3 } })];
      await server.start();
      await put(server.storage, '/before');
      await server.storage.members?.saveSnapshot('one');
      const listed = (await server.storage.members?.listSnapshots())?.snapshots.map(({ path }) => path);
      expect(listed).toEqual([join(server.files.snapshots, 'one'), 's3://backups/tested/copied/one']);
      store.failures.push(403);
      expect(await server.storage.members?.listSnapshots()).toEqual({
        snapshots: [expect.objectContaining({ name: 'one', server: 'copied' })],
        copiesFailure: expect.stringMatching(/^the copies of the snapshots cannot be listed: GET s3:.*HTTP 403/),
      });
      await server.stop();
      const snapshot = join(empty.files.snapshots, 'one');
      const restoring = { state: 'restoring', name: 'new', snapshot } as const;
      await expect(empty.start({ ...restoring, download: 'two' })).rejects.toThrow('there is no snapshot two in s3://backups/tested/');
      await empty.start({ ...restoring, download: 'one' });
      expect((await empty.storage.get('/before')).entry).toBeDefined();
    } finally {
      await store.stop();
    }
  });

  it('continues alone with its data after the loss of the others', async () => {
    const [first, second] = [await Server.create('left'), await Server.create('lost')];
    await first.start();
    await second.start({ state: 'joining', endpoints: first.storage.members?.endpoints() ?? [] });
    await put(second.storage, '/a');
    await first.stop();
    await second.stop();
    await first.start({ state: 'resetting', name: 'left' });
    expect(await first.files.read()).toMatchObject({ state: 'member' });
    expect((await first.storage.get('/a')).entry).toBeDefined();
    await put(first.storage, '/b');
    expect(await rolesOf(first)).toEqual(['left Leader']);
  });

  it('records that a reset has begun before the program runs, which cannot be undone', async () => {
    const program = join(base, 'etcd-that-never-serves');
    await writeFile(program, '#!/bin/sh\n[ "$1" = --version ] && echo "etcd Version: 3.4.23" || exec sleep 600\n', { mode: 0o700 });
    const server = await Server.create('begun', { program });
    // 10 s are 100 ms
    const clock = { ...systemClock, monotonic: () => 100 * systemClock.monotonic() };
    const stop = new AbortController();
    const warn = (_: object, message: string) => stop.abort(new Error(message));
    const log = { ...silentLogger, warn, child: () => log };
    await expect(server.start({ state: 'resetting', name: 'begun' }, { clock, log, signal: stop.signal })).rejects.toThrow(
      `the etcd member does not serve yet: ${server.files.log} has its progress`,
    );
    expect(await server.files.read()).toEqual({ state: 'resetting', name: 'begun', begun: true });
  });

  it('does not start on an address that this machine does not have', async () => {
    const server = await Server.create('moved');
    await server.start();
    await server.stop();
    await expect(server.start(undefined, { address: '192.0.2.1' })).rejects.toThrow(
      'the etcd member cannot listen on 192.0.2.1, which is not an address of this machine: set server.address in the cluster file',
    );
    await server.start();
    expect(await rolesOf(server)).toEqual(['moved Leader']);
  });

  it('does not start on a port that another program uses', async () => {
    const server = await Server.create('beside');
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(server.peerPort, '127.0.0.1', resolve));
    try {
      await expect(server.start()).rejects.toThrow(
        'the etcd member cannot listen on 127.0.0.1: another program uses the port, such as the member of another data directory',
      );
    } finally {
      await new Promise((resolve) => other.close(resolve));
    }
    await server.start();
    expect(await rolesOf(server)).toEqual(['beside Leader']);
  });

  it('reports while it starts that it waits for the others', async () => {
    const [first, second] = [await Server.create('early'), await Server.create('late')];
    await first.start();
    await second.start({ state: 'joining', endpoints: first.storage.members?.endpoints() ?? [] });
    await first.stop();
    await second.stop();
    // 10 s are 100 ms
    const clock = { ...systemClock, monotonic: () => 100 * systemClock.monotonic() };
    const stop = new AbortController();
    const warnings: string[] = [];
    const warn = (_: object, message: string) => {
      warnings.push(message);
      stop.abort(new Error('stopped by the test'));
    };
    const log = { ...silentLogger, warn, child: () => log };
    await expect(first.start(undefined, { clock, log, signal: stop.signal })).rejects.toThrow('stopped by the test');
    expect(warnings[0]).toBe('the etcd member does not serve yet: it waits for a quorum of the members, so start the other servers');
  });

  it('does not start an empty cluster if its data is gone', async () => {
    const server = await Server.create('gone');
    await server.start();
    await server.stop();
    await rm(server.files.data, { recursive: true });
    await expect(server.start()).rejects.toThrow('has no data of the etcd member, which was there before');
  });

  it('is started again when its program ends', async () => {
    const server = await Server.create('killed');
    await server.start();
    const pid = (await server.pid()) ?? 0;
    process.kill(pid, 'SIGKILL');
    // the call is repeated until the member serves again
    await expect
      .poll(
        () =>
          put(server.storage, '/a').then(
            () => true,
            () => false,
          ),
        { timeout: 120_000 },
      )
      .toBe(true);
    expect(await server.pid()).not.toBe(pid);
  });

  it('is not healthy at its space quota, and accepts writes again after deletion, compaction, defragmentation and disarming', async () => {
    const server = await Server.create('full', { quotaBytes: 16 * 1024 * 1024 });
    await server.start();
    const conditions: string[] = [];
    server.storage.watchConditions?.((present) => void conditions.push(present.map(({ reason }) => reason).join()));
    const value = Buffer.alloc(1024 * 1024, 'x');
    const fill = async (): Promise<void> => {
      for (let index = 0; ; index += 1) await server.storage.commit([{ key: `/big/${index}`, value }], []);
    };
    await expect(fill()).rejects.toMatchObject({ code: 'Full' });
    await expect.poll(() => server.storage.checkHealth?.()).toEqual({ healthy: false, reason: expect.stringContaining('NOSPACE') });
    expect((await server.storage.members?.list())?.[0]?.alarms).toContain('NOSPACE');
    const { entries } = await server.storage.range({ prefix: '/big/' });
    for (const { key } of entries) await server.storage.commit([{ key, value: null }], []);
    await server.storage.compact(await server.storage.requestProgress());
    expect(await server.storage.members?.defragment()).toEqual(['full']);
    await expect(server.storage.commit([{ key: '/a', value }], [])).rejects.toMatchObject({ code: 'Full' });
    expect(await server.storage.members?.disarm()).toEqual(['full']);
    expect(await server.storage.members?.disarm()).toEqual([]);
    expect((await server.storage.commit([{ key: '/a', value }], [])).ok).toBe(true);
    // the health is read each minute, and at once after a rejected write
    await expect.poll(() => server.storage.checkHealth?.()).toEqual({ healthy: true });
    expect(await readFile(server.files.log, 'utf8')).toContain('finished defragment');
    expect([conditions[0], conditions.at(-1)]).toEqual(['', '']);
    expect(conditions).toContain('EtcdNoSpace,EtcdSpaceLow');
  });
});
