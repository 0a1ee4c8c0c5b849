import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { openImageStore, type OpenImageStore } from '@oarlock/oci/store/open-image-store';
import type { RootFilesystem, SnapshotterKind } from '@oarlock/oci/snapshotter';
import { available } from '@oarlock/kernel/plugin';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { canMakeNamespaces, findProgram } from '@oarlock/process-supervisor/host/host-tools';
import type { NetworkDriver } from '@oarlock/spi/network';
import { shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import { startRegistry } from '../../../../e2e/fixtures/registry.ts';
import { tar } from '../../../../e2e/fixtures/tar.ts';
import { buildImage, busyboxImage, busyboxLayer } from '../../../../e2e/fixtures/test-image.ts';
import { supervisorArguments } from '@oarlock/process-supervisor/client/supervisor-launch';
import { OciRuntime, type OciRuntimeConfig } from '../../src/oci-runtime.ts';
import type { RuntimeMode } from '../../src/modes/runtime-mode.ts';
import type { SupervisorOptions } from '../../src/supervisor.ts';

const run = promisify(execFile);
/** The user of supervisors that run without root while the tests run as root. */
const ordinaryUser = 65_534;
/** The user of this machine that is root in a user namespace with many users, which `newuidmap` makes for an ordinary user. */
const mappedUser = 100_000;

export const missingForRoot = (): string | undefined => (canMakeNamespaces() ? undefined : 'namespaces need root');
/** The OCI runtime of the tests: runc, or the program that `OARLOCK_OCI_RUNTIME` names. */
const ociRuntime = process.env['OARLOCK_OCI_RUNTIME'] ?? findProgram('runc');
export function missingForRunc(): string | undefined {
  return missingForRoot() ?? (ociRuntime === undefined ? 'runc is not installed' : undefined);
}
/** Returns why an ordinary user cannot run containers on this machine; undefined if it can. */
export function missingForUser(): string | undefined {
  if (process.platform !== 'linux') return 'namespaces need Linux';
  const as = process.getuid?.() === 0 ? { uid: ordinaryUser, gid: ordinaryUser } : {};
  const flags = ['--user', '--map-root-user', '--mount', '--pid', '--fork', '--mount-proc', '--', 'true'];
  const { status, stderr } = spawnSync('unshare', flags, { ...as, cwd: '/', encoding: 'utf8' });
  return status === 0 ? undefined : `the kernel denies user namespaces: ${stderr}`;
}

/** Returns why root cannot make a user namespace with many users here, in which runc runs; undefined if it can. */
export function missingForMappedUsers(): string | undefined {
  if (missingForRunc() !== undefined) return missingForRunc();
  const { status, stderr } = spawnSync('unshare', ['--user', '--mount', '--net', 'true'], { cwd: '/', encoding: 'utf8' });
  return status === 0 ? undefined : `the kernel denies user namespaces: ${stderr}`;
}

export const runcMode = (): Extract<RuntimeMode, { readonly program: 'runc' }> => ({
  program: 'runc',
  path: ociRuntime ?? '',
  user: 'root',
});

/** A network plugin that leaves the namespace as it is: the supervisor has set up loopback. */
export function loopbackNetwork(): NetworkDriver {
  let last = 1;
  return {
    traits: { namespace: 'pod', podCIDR: '192.0.2.0/24', serviceCIDR: '198.51.100.0/24' },
    setup: async () => {},
    async add({ netns = '' }) {
      const { stdout } = await run('nsenter', [`--net=${netns}`, 'ip', '-o', 'address', 'show', 'dev', 'lo']);
      if (!stdout.includes('127.0.0.1/8')) throw new Error(`lo is not up in ${netns}`);
      last = (last % 250) + 1;
      return { ips: [`192.0.2.${last}`] };
    },
    check: async () => {},
    del: async () => {},
    status: async () => ({ ready: true, message: '' }),
    gc: async () => {},
  };
}

export interface OciFixture extends RuntimeFixture {
  /** Words in front of a command that runs in the namespaces of the supervisor. */
  readonly enter: readonly string[];
  /** The user of this machine that is root in containers. */
  readonly root: number;
  readonly dataDir: string;
  readonly driver: OciRuntime;
  /** Returns the process id of the supervisor. */
  supervisor(): number;
  /** An image of two layers, for volumes: `lower/file`, `both/file` of both layers, `deleted` by the upper one, and `link` to `lower`. */
  readonly layeredImage: string;
  /** An image with programs and libraries that are meant for those that start its container: helpers of mount, which write /helper, and a preload file. */
  readonly hostileImage: string;
  restartClient(): Promise<OciRuntime>;
  /** Starts the next supervisor after the first was killed, as its user. Undefined if the driver does it. */
  readonly startSupervisor: (() => Promise<void>) | undefined;
}

export interface FixtureOptions {
  readonly network?: NetworkDriver;
  readonly config?: Partial<OciRuntimeConfig>;
  /** Whether containers run in a user namespace with many users. */
  readonly mapped?: boolean;
  readonly snapshotter?: SnapshotterKind;
}

/** Opens a runtime with the image `busyboxImage`, and a registry with another image. */
export async function openRuntime(
  mode: RuntimeMode = runcMode(),
  { network, config, mapped = false, snapshotter }: FixtureOptions = {},
): Promise<OciFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'runtime-oci-'));
  const dataDir = join(directory, 'data');
  const layer = await busyboxLayer();
  const credentials = { username: 'someone', password: 'secret' };
  const registry = await startRegistry(
    [
      buildImage('oarlock.test/pulled:1', layer, { Cmd: ['/bin/sh'] }),
      buildImage('oarlock.test/hostile:1', [layer, hostileLayer()], { Cmd: ['/bin/sh'], Env: ['PATH=/bin'] }),
      buildImage('oarlock.test/layers:1', [lowerLayer(), upperLayer()], {}),
      buildImage(busyboxImage, layer, { Cmd: ['/bin/sh'], Env: ['PATH=/bin', 'FROM_IMAGE=yes'] }),
    ],
    credentials,
  );
  const owner = mapped ? mappedUser : mode.user === 'user' && process.getuid?.() === 0 ? ordinaryUser : undefined;
  const open = async (path: string) => {
    const opened = await openImageStore({ directory: path, clock: systemClock, log: silentLogger, snapshotter });
    return owner === undefined ? opened : forUser(opened, owner);
  };
  const store = await open(join(dataDir, 'images'));
  const image = await store.images.pull({ reference: `${registry.host}/busybox:1`, credentials });
  await store.images.close();
  const make = async (more: Partial<OciRuntimeConfig> = {}) => {
    const settings = { keepPods: true, stopGraceSeconds: 2, idleSeconds: 30, required: true, ...config, ...more };
    const driver = new OciRuntime(settings, network, {
      clock: systemClock,
      log: silentLogger,
      dataDir,
      mode,
      probe: async () => available,
      hasCgroups: () => owner === undefined && CgroupManager.open(systemClock) !== undefined,
      openImages: open,
    });
    await driver.start();
    return owner === undefined ? driver : withOwnLogs(driver, owner);
  };
  if (owner !== undefined) await chmod(directory, 0o755);
  const namespace = mapped ? await startUserNamespace() : undefined;
  const enter = namespace?.enter ?? [];
  const startSupervisor = owner === undefined ? undefined : () => startSupervisorAs(owner, { dataDir, mode, idleMs: 30_000 }, enter);
  await startSupervisor?.();
  let driver = await make();
  return {
    driver,
    supervisor: () => lockHolder(dataDir),
    enter,
    root: owner ?? 0,
    dataDir,
    image: image.id,
    command: shellPrograms(),
    layeredImage: `${registry.host}/layers:1`,
    hostileImage: `${registry.host}/hostile:1`,
    pull: { image: `${registry.host}/pulled:1`, auth: credentials, missing: `${registry.host}/missing:1` },
    unsupported: {
      ...(!driver.traits.networkNamespaces && { addresses: "sandboxes share the host's network; the kubelet gets their addresses" }),
      // in a cluster, this process is in the network namespace of the node
      ...(mapped && { portForward: 'the test is outside of the network namespace of the supervisor' }),
      ...((mapped || mode.user === 'user') && {
        updateResources: 'limits need root and control groups',
        oom: 'limits need root and control groups',
      }),
    },
    startSupervisor,
    async restartClient() {
      await driver.stop();
      driver = await make();
      return driver;
    },
    async dispose() {
      await driver.stop();
      await (await make({ keepPods: false })).stop();
      namespace?.release();
      await registry.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Returns the process id in the newest lock of a data directory. */
export function lockHolder(dataDir: string): number {
  const generations = readdirSync(dataDir).flatMap((name) => (name.startsWith('lock.') ? [Number(name.slice('lock.'.length))] : []));
  return (JSON.parse(readFileSync(join(dataDir, `lock.${Math.max(...generations)}`), 'utf8')) as { readonly pid: number }).pid;
}

const file = (path: string, text: string) => ({ type: 'file', path, bytes: Buffer.from(text) }) as const;
const lowerLayer = () =>
  tar([
    { type: 'directory', path: 'lower' },
    file('lower/file', 'lower\n'),
    { type: 'directory', path: 'both' },
    file('both/file', 'lower\n'),
    file('deleted', 'deleted\n'),
    { type: 'symlink', path: 'link', target: 'lower' },
  ]);
const upperLayer = () => tar([{ type: 'directory', path: 'both' }, file('both/file', 'upper\n'), file('.wh.deleted', '')]);

const helper = Buffer.from('#!/bin/sh\necho helper > /helper\nexit 1\n');
const hostileLayer = () =>
  tar([
    { type: 'directory', path: 'sbin' },
    ...['proc', 'tmpfs', 'sysfs', 'devpts', 'mqueue'].map(
      (type) => ({ type: 'file', path: `sbin/mount.${type}`, bytes: helper, mode: 0o755 }) as const,
    ),
    file('etc/ld.so.preload', '/absent.so\n'),
  ]);

/** Gives the writable layers of snapshots, which the tests make as root, to the supervisor's user. */
function forUser({ snapshots, ...store }: OpenImageStore, owner: number): OpenImageStore {
  const give = async (root: RootFilesystem): Promise<RootFilesystem> => {
    if (root.mount === undefined) return root;
    const { options, directory } = root.mount;
    // only the snapshot's own directories: others of the store come and go while images are pulled
    for (const option of options) {
      const [, kind, paths = ''] = /^(upperdir|workdir|lowerdir)=(.*)$/.exec(option) ?? [];
      if (kind === undefined) continue;
      for (const path of paths.split(':')) {
        await run('chmod', ['go+X', ...parentsOf(path).map((parent) => join(directory, parent))]);
        await run('chmod', ['-R', 'go+rX', join(directory, path)]);
        if (kind !== 'lowerdir') await run('chown', ['-R', `${owner}`, join(directory, path)]);
      }
    }
    return { mount: { ...root.mount, options: [...options, 'userxattr'] } };
  };
  return {
    ...store,
    snapshots: {
      kind: snapshots.kind,
      prepare: async (request, signal) => give(await snapshots.prepare(request, signal)),
      view: async (request, signal) => give(await snapshots.view(request, signal)),
      root: (key) => snapshots.root(key),
      list: () => snapshots.list(),
      remove: (key) => snapshots.remove(key),
      usage: (key, signal) => snapshots.usage(key, signal),
    },
  };
}

/** Returns the directories above a relative path, outermost first: `a/b/c` gives `.`, `a` and `a/b`. */
const parentsOf = (path: string): string[] => {
  const parent = dirname(path);
  return parent === '.' ? ['.'] : [...parentsOf(parent), parent];
};

/** Starts a supervisor as a user. `enter` are the words that enter its namespaces. */
async function startSupervisorAs(owner: number, options: SupervisorOptions, enter: readonly string[]): Promise<void> {
  await chown(options.dataDir, owner, owner);
  const entry = createRequire(import.meta.url).resolve('@oarlock/runtime-oci/supervisor');
  const command = [process.execPath, ...supervisorArguments({ entry, options })];
  const [file = '', ...args] = [...enter, ...command];
  const child = spawn(file, args, {
    detached: true,
    cwd: '/',
    ...(owner !== mappedUser && { uid: owner, gid: owner }),
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the supervisor ended with code ${code}`)));
    child.stdout.once('data', () => resolve());
  });
  child.removeAllListeners('exit');
  child.stdout.destroy();
  child.unref();
}

/** Makes a user, a mount and a network namespace in which `mappedUser` is root. They last until the release. */
async function startUserNamespace(): Promise<{ readonly enter: readonly string[]; release(): void }> {
  const holder = spawn('unshare', ['--user', '--mount', '--net', '--', 'sh', '-c', 'echo made; read end'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  for (const map of ['uid_map', 'gid_map']) await writeFile(`/proc/${holder.pid}/${map}`, `0 ${mappedUser} 65536\n`);
  const enter = ['nsenter', '--target', String(holder.pid), '--user', '--mount', '--net', '--setuid', '0', '--setgid', '0', '--'];
  return { enter, release: () => holder.stdin.end() };
}

/** Gives the log directories of pods, which the tests create as root, to the supervisor's user. */
function withOwnLogs(driver: OciRuntime, owner: number): OciRuntime {
  const runPod = driver.runPodSandbox.bind(driver);
  driver.runPodSandbox = async (config, handler, call) => {
    await mkdir(config.logDirectory, { recursive: true });
    for (const path of [dirname(config.logDirectory), config.logDirectory]) await chown(path, owner, owner);
    return runPod(config, handler, call);
  };
  return driver;
}
