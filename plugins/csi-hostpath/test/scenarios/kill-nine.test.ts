import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { csiTable } from '@oarlock/csi/csi-messages';
import type { CsiSnapshot, CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { driver } from '../../src/driver.ts';
import { Faults } from '../../src/faults.ts';

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;
const loops =
  isRoot &&
  (await run('losetup', ['--find']).then(
    () => true,
    () => false,
  ));
const writer = { accessMode: { mode: 'SINGLE_NODE_WRITER' } } as const;
const kinds: readonly (readonly [string, VolumeCapability, boolean])[] = [
  ['a directory', { mount: {}, ...writer }, true],
  ['a block device', { block: {}, ...writer }, loops],
];
const timeoutMs = 30_000;

interface Running {
  readonly client: UnixClient;
  /** Resolves when the process has ended. */
  readonly death: Promise<unknown>;
  kill(): void;
}

/** A driver that a faults file kills, and that restarts with the state on disk and in the kernel. */
class KilledDriver {
  readonly directory: string;
  readonly #begin: (killed: KilledDriver) => Promise<Running>;
  #running: Running | undefined;

  constructor(directory: string, begin: (killed: KilledDriver) => Promise<Running>) {
    this.directory = directory;
    this.#begin = begin;
  }

  async start(): Promise<void> {
    this.#running = await this.#begin(this);
  }
  async stop(): Promise<void> {
    this.#running?.client.close();
    this.#running?.kill();
    await this.#running?.death;
  }

  /** Makes a call during which the driver is killed before or after its work; then restarts the driver and repeats the call, as CSI callers do. */
  async call<T extends object>(
    service: 'Controller' | 'Node',
    method: string,
    request: object,
    kill: 'before' | 'after' | undefined,
  ): Promise<T> {
    if (kill !== undefined) {
      await writeFile(this.faults, JSON.stringify({ [method]: { kill } }));
      await expect(this.#ask(service, method, request), method).rejects.toMatchObject({ name: 'GrpcError' });
      await this.stop();
      expect(await readFile(this.faults, 'utf8'), method).toBe('{}');
      await this.start();
    }
    return this.#ask(service, method, request);
  }
  #ask<T extends object>(service: string, method: string, request: object): Promise<T> {
    if (this.#running === undefined) throw new Error('it was not started');
    return this.#running.client.call<T>(`csi.v1.${service}`, method, request);
  }

  /** Returns what is left on the machine: mounts, loop devices, files. */
  async left(): Promise<readonly string[]> {
    const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter((line) => line.includes(this.directory));
    const devices = loops
      ? (await run('losetup', ['--list', '--noheadings'])).stdout.split('\n').filter((line) => line.includes(this.directory))
      : [];
    const files = await Promise.all(['state', 'content', 'published', 'staged'].map((part) => readdir(join(this.directory, 'data', part))));
    return [...mounts, ...devices, ...files.flat()];
  }

  get socket(): string {
    return join(this.directory, 'csi.sock');
  }
  get faults(): string {
    return join(this.directory, 'faults.json');
  }
  get client(): UnixClient {
    return new UnixClient({ socket: this.socket, table: csiTable, timeoutMs });
  }
}

/** Runs the driver in this process: a kill loses its memory, and calls get no response. */
async function inProcess(killed: KilledDriver): Promise<Running> {
  let die = () => {};
  const death = new Promise<void>((resolve) => (die = resolve));
  const server = await driver({
    name: 'hostpath.csi.oarlock.dev',
    endpoint: killed.socket,
    nodeId: 'here',
    dataDir: join(killed.directory, 'data'),
    capacityBytes: 2 ** 30,
    version: 'test',
    now: Date.now,
    attach: true,
    mutable: ['speed'],
    nodeExpansion: true,
    faults: new Faults(killed.faults, () => die()),
  });
  return { client: killed.client, death: death.then(() => server.close()), kill: () => die() };
}

/** Runs the driver as a separate process, which is killed with SIGKILL. */
async function asProcess(killed: KilledDriver): Promise<Running> {
  const main = programPath('@oarlock/csi-hostpath/main', import.meta.url);
  const own = [
    '--endpoint',
    killed.socket,
    '--node-id',
    'here',
    '--data-dir',
    join(killed.directory, 'data'),
    '--attach',
    '--node-expansion',
    '--mutable',
    'speed',
    '--faults',
    killed.faults,
  ];
  const child = spawn(process.execPath, [...loaderFlags(main), main, ...own], { stdio: ['pipe', 'pipe', 'inherit'] });
  const death = once(child, 'exit');
  await Promise.race([once(createInterface({ input: child.stdout }), 'line'), death]);
  return { client: killed.client, death, kill: () => void child.kill('SIGKILL') };
}

const all = () => true;
const lives = [
  { title: 'before the work of each call', kill: 'before', begin: inProcess, dies: all },
  { title: 'after the work of each call', kill: 'after', begin: inProcess, dies: all },
  // a process takes long to start, so this case covers only the calls that change state in the kernel
  { title: 'by SIGKILL after each node call', kill: 'after', begin: asProcess, dies: (service: string) => service === 'Node' },
] as const;

describe.each(lives)('csi-hostpath killed $title', ({ kill, begin, dies }) => {
  let killed: KilledDriver;
  beforeEach(async () => {
    killed = new KilledDriver(await mkdtemp(join(tmpdir(), 'csi-kill-')), begin);
    await killed.start();
  });
  afterEach(async () => {
    await killed.stop();
    await rm(killed.directory, { recursive: true });
  });

  it.each(kinds.filter(([, , possible]) => possible))(
    'the lifecycle of %s completes and leaves nothing behind',
    async (_what, volumeCapability) => {
      const call = <T extends object>(service: 'Controller' | 'Node', method: string, request: object) =>
        killed.call<T>(service, method, request, dies(service) ? kill : undefined);
      const { volume } = await call<{ volume: CsiVolume }>('Controller', 'CreateVolume', {
        name: 'one',
        volumeCapabilities: [volumeCapability],
        capacityRange: { requiredBytes: 8 * 2 ** 20 },
      });
      const { volumeId } = volume;
      const stagingTargetPath = join(killed.directory, 'staging');
      const targetPath = join(killed.directory, 'pods', 'one');
      await call('Controller', 'ControllerPublishVolume', { volumeId, nodeId: 'here', volumeCapability, readonly: false });
      await call('Node', 'NodeStageVolume', { volumeId, stagingTargetPath, volumeCapability });
      await call('Node', 'NodePublishVolume', { volumeId, stagingTargetPath, targetPath, volumeCapability });
      const file = volumeCapability.mount === undefined ? targetPath : join(targetPath, 'file');
      await writeFile(file, 'here');
      await call('Controller', 'ControllerExpandVolume', { volumeId, capacityRange: { requiredBytes: 16 * 2 ** 20 } });
      await call('Node', 'NodeExpandVolume', { volumeId, volumePath: targetPath, capacityRange: { requiredBytes: 16 * 2 ** 20 } });
      await call('Controller', 'ControllerModifyVolume', { volumeId, mutableParameters: { speed: 'high' } });
      const { snapshot } = await call<{ snapshot: CsiSnapshot }>('Controller', 'CreateSnapshot', {
        sourceVolumeId: volumeId,
        name: 'then',
      });
      expect((await readFile(file)).subarray(0, 4).toString()).toBe('here');
      // other volumes are created from it in the meantime
      const copies: string[] = [];
      for (const [at, volumeContentSource] of [{ snapshot: { snapshotId: snapshot.snapshotId } }, { volume: { volumeId } }].entries()) {
        const { volume: copy } = await call<{ volume: CsiVolume }>('Controller', 'CreateVolume', {
          name: `copy-${at}`,
          volumeCapabilities: [volumeCapability],
          capacityRange: { requiredBytes: 16 * 2 ** 20 },
          volumeContentSource,
        });
        copies.push(copy.volumeId);
      }
      for (const copy of copies) await call('Controller', 'DeleteVolume', { volumeId: copy });
      await call('Node', 'NodeUnpublishVolume', { volumeId, targetPath });
      await call('Node', 'NodeUnstageVolume', { volumeId, stagingTargetPath });
      await call('Controller', 'ControllerUnpublishVolume', { volumeId, nodeId: 'here' });
      await call('Controller', 'DeleteSnapshot', { snapshotId: snapshot.snapshotId });
      await call('Controller', 'DeleteVolume', { volumeId });
      expect(await killed.left()).toEqual([]);
    },
    180_000,
  );
});
