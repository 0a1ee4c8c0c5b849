import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import { shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import plugin from '../../src/plugin.ts';
import { ProcessRuntime, supervisorProgram, type ProcessRuntimeConfig } from '../../src/process-runtime.ts';
import { canMakeNamespaces, systemPath } from '@oarlock/process-supervisor/host/host-tools';
import type { SupervisorOptions } from '../../src/supervisor.ts';
import { supervisorArguments } from '@oarlock/process-supervisor/client/supervisor-launch';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';

const run = promisify(execFile);
const shell = shellPrograms();

const echoServer =
  'const net = require("node:net"); net.createServer({ allowHalfOpen: true }, (s) => s.pipe(s)).listen(Number(process.argv[1]), "127.0.0.1")';
// a process container has its own control group, but sees the host's cgroup file system
const memoryLimit =
  'g=$(sed -n "s/^[0-9]*:memory://p" /proc/self/cgroup); if [ -n "$g" ]; then cat "/sys/fs/cgroup/memory$g/memory.limit_in_bytes"; else cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max"; fi';

export const command: RuntimeFixture['command'] = (program, args) => {
  if (program === 'listen') return { command: [process.execPath, '-e', echoServer], args };
  if (program === 'memory-limit') return { command: ['/bin/sh', '-c', memoryLimit], args: [] };
  return shell(program, args);
};

export const hasCgroups = CgroupManager.open(systemClock) !== undefined;
export const isPrivileged = canMakeNamespaces();

/** A network plugin that sets up only loopback in the namespace. */
export function loopbackNetwork(): NetworkDriver & { readonly added: Set<string> } {
  const added = new Set<string>();
  let last = 1;
  return {
    added,
    traits: { namespace: 'pod', podCIDR: '192.0.2.0/24', serviceCIDR: '198.51.100.0/24' },
    setup: async () => {},
    async add({ containerId, netns = '' }) {
      await run('nsenter', [`--net=${netns}`, 'ip', 'link', 'set', 'lo', 'up']);
      added.add(containerId);
      last = (last % 250) + 1;
      return { ips: [`192.0.2.${last}`] };
    },
    check: async () => {},
    async del({ containerId }) {
      added.delete(containerId);
    },
    status: async () => ({ ready: true, message: '' }),
    gc: async () => {},
  };
}

/** The user of supervisors that run without root while the tests run as root. */
const ordinaryUser = 65_534;

/** Starts a supervisor as an ordinary user in the directory, which it then owns. Drivers find it there. */
export async function startSupervisorAsUser(options: SupervisorOptions): Promise<void> {
  await chown(options.dataDir, ordinaryUser, ordinaryUser);
  const child = spawn(process.execPath, supervisorArguments(supervisorProgram(options)), {
    detached: true,
    cwd: '/',
    uid: ordinaryUser,
    gid: ordinaryUser,
    env: { PATH: systemPath, HOME: '/nonexistent' },
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

export const supervisorOptions = (dataDir: string, more: Partial<SupervisorOptions> = {}): SupervisorOptions => ({
  dataDir,
  path: dirname(process.execPath),
  nice: 0,
  cgroups: false,
  namespaces: true,
  isolation: 'required',
  hiddenPaths: [],
  idleMs: 30_000,
  ...more,
});

/** Opens a driver on a supervisor that isolates its containers as an ordinary user. */
export async function openRuntimeAsUser(): Promise<ProcessFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'runtime-process-'));
  const asRoot = process.getuid?.() === 0;
  if (asRoot) await startSupervisorAsUser(supervisorOptions(directory));
  const fixture = await openRuntime({ cgroups: false, isolation: 'required' }, undefined, directory);
  return asRoot
    ? { ...fixture, driver: withOwnLogs(fixture.driver), restartClient: async () => withOwnLogs(await fixture.restartClient()) }
    : fixture;
}

/** Gives the log directories of pods, which the tests create as root, to the supervisor's user. */
function withOwnLogs(driver: ProcessRuntime): ProcessRuntime {
  const run = driver.runPodSandbox.bind(driver);
  driver.runPodSandbox = async (config, handler, call) => {
    await mkdir(config.logDirectory, { recursive: true });
    for (const path of [dirname(config.logDirectory), config.logDirectory]) await chown(path, ordinaryUser, ordinaryUser);
    return run(config, handler, call);
  };
  return driver;
}

/** Returns why an ordinary user cannot isolate processes on this machine; undefined if it can. */
export function missingUserIsolation(): string | undefined {
  if (process.platform !== 'linux') return 'namespaces need Linux';
  const as = process.getuid?.() === 0 ? { uid: ordinaryUser, gid: ordinaryUser } : {};
  const flags = ['--user', '--map-root-user', '--mount', '--pid', '--fork', '--mount-proc', '--', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'];
  const { status, stderr } = spawnSync('unshare', flags, { ...as, cwd: '/', encoding: 'utf8' });
  return status === 0 ? undefined : `the kernel denies user namespaces: ${stderr}`;
}

export interface ProcessFixture extends RuntimeFixture {
  readonly dataDir: string;
  /** Opens another driver on the same directory; the previous one is dropped without a stop. */
  restartClient(): Promise<ProcessRuntime>;
  readonly driver: ProcessRuntime;
}

export async function openRuntime(
  config: Partial<ProcessRuntimeConfig> = {},
  network?: NetworkDriver,
  dataDir?: string,
): Promise<ProcessFixture> {
  const directory = dataDir ?? (await mkdtemp(join(tmpdir(), 'runtime-process-')));
  const settings: ProcessRuntimeConfig = { ...(plugin.config.parse({}) as ProcessRuntimeConfig), keepPods: true, ...config };
  const make = async (more: Partial<ProcessRuntimeConfig> = {}) => {
    const driver = new ProcessRuntime({ ...settings, ...more }, network, { clock: systemClock, log: silentLogger, dataDir: directory });
    await driver.start();
    return driver;
  };
  let driver = await make();
  const limits = hasCgroups && settings.cgroups;
  const mounts = (isPrivileged && settings.namespaces) || (await driver.isolation()).enforced;
  return {
    driver,
    dataDir: directory,
    image: 'host',
    command,
    unsupported: {
      imagePull: 'there is one image, and it is here',
      imageRemove: 'the host stays',
      ...(!mounts && { mounts: 'mounts need namespaces; volumes are linked below $OARLOCK_ROOT' }),
      ...(!driver.traits.networkNamespaces && { addresses: "sandboxes share the host's network; the kubelet gets their addresses" }),
      ...(!limits && { updateResources: 'limits need root and control groups', oom: 'limits need root and control groups' }),
    },
    async restartClient() {
      await driver.stop();
      driver = await make();
      return driver;
    },
    async dispose() {
      await driver.stop();
      await (await make({ keepPods: false })).stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
