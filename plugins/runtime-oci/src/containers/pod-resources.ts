import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isMounted, unmountRoot } from '@oarlock/oci/snapshots/mount-root';
import { isAbsentOrTruncated } from '@oarlock/primitives/os/file-error';
import { isIpcSysctl } from '@oarlock/process-supervisor/host/ipc-sysctls';
import type { Tools } from '@oarlock/process-supervisor/host/host-tools';
import { childrenOf, startTime } from '@oarlock/process-supervisor/host/process-table';
import { SupervisorError, type SandboxRecord } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { PodSandboxConfig } from '@oarlock/spi/runtime';

const run = promisify(execFile);
const timeout = 10_000;

/** What the containers of a pod share. */
export interface PodResources {
  readonly shm: string | undefined;
  readonly shared: Readonly<Partial<Record<'ipc' | 'pid', string>>>;
}
const memoryDirectory = (sandboxId: string) => `/dev/shm/oarlock-${sandboxId.slice(0, 24)}`;

interface Holder {
  readonly pid: number;
  readonly started: string;
}

/** Sets sysctls of the namespaces of this process, then runs a command. [FILE VALUE]... -- COMMAND... */
const writeSettings = `while [ "$1" != -- ]; do printf '%s' "$2" > "$1" || exit 1; shift 2; done
shift; exec "$@"`;
const sharedMemory = ['-n', '-t', 'tmpfs', '-o', 'nosuid,nodev,noexec,mode=1777,size=65536k', 'shm'];
/** The first process of a pod's shared process namespace: it reaps orphans and ends on SIGTERM. */
const reaper = "trap 'exit 0' TERM INT; echo ready; exec >&-; while :; do sleep 86400 & wait $!; done";

/** Creates and removes what containers of a pod share: memory, the IPC namespace, and with `shareProcessNamespace` the process namespace. */
export class PodResourceManager {
  readonly #directoryOf: (sandboxId: string) => string;
  readonly #tools: Tools;
  readonly #mode: 'root' | 'user';
  readonly #opened = new Map<string, Promise<PodResources>>();

  constructor(directoryOf: (sandboxId: string) => string, { tools, mode }: { readonly tools: Tools; readonly mode: 'root' | 'user' }) {
    this.#directoryOf = directoryOf;
    this.#tools = tools;
    this.#mode = mode;
  }

  /** Returns the resources of a pod, and creates them for its first container. @throws SupervisorError */
  open(sandbox: SandboxRecord): Promise<PodResources> {
    let opened = this.#opened.get(sandbox.id);
    if (!opened) {
      opened = this.#open(sandbox);
      this.#opened.set(sandbox.id, opened);
      opened.catch(() => this.#opened.delete(sandbox.id));
    }
    return opened;
  }

  /** Ends and unmounts the resources of a pod. Succeeds if there are none. */
  async close(sandboxId: string): Promise<void> {
    await this.#opened.get(sandboxId)?.catch(() => {}); // what it made is removed below
    this.#opened.delete(sandboxId);
    const directory = this.#directoryOf(sandboxId);
    const holder = readHolder(join(directory, 'reaper'));
    if (holder && startTime(holder.pid) === holder.started) process.kill(holder.pid, 'SIGKILL');
    rmSync(memoryDirectory(sandboxId), { recursive: true, force: true });
    for (const name of ['shm', 'ipc']) if (existsSync(join(directory, name))) await unmountRoot(join(directory, name));
  }

  async #open({ id, config }: SandboxRecord): Promise<PodResources> {
    const { ipc, pid } = config.linux.security.namespaces;
    if (this.#mode === 'user') return this.#openAsUser(id, config);
    const directory = this.#directoryOf(id);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const [ipcPath, reaperPid] = await Promise.all([
      ipc === 'POD' ? this.#makeIpc(directory, config.linux.sysctls ?? {}) : undefined,
      pid === 'POD' ? this.#startReaper(directory) : undefined,
    ]);
    return {
      shm: ipc === 'NODE' ? '/dev/shm' : ipcPath === undefined ? undefined : join(directory, 'shm'),
      shared: {
        ...(ipcPath !== undefined && { ipc: ipcPath }),
        ...(reaperPid !== undefined && { pid: `/proc/${reaperPid}/ns/pid` }),
      },
    };
  }

  /** Shares memory through a directory: a namespace of another user namespace cannot be joined. */
  #openAsUser(id: string, { linux }: PodSandboxConfig): PodResources {
    const { ipc, pid } = linux.security.namespaces;
    if (pid === 'POD') throw new SupervisorError('Unsupported', 'shareProcessNamespace needs root');
    if (ipc === 'NODE') return { shm: '/dev/shm', shared: {} };
    if (ipc !== 'POD') return { shm: undefined, shared: {} };
    mkdirSync(memoryDirectory(id), { recursive: true, mode: 0o700 });
    return { shm: memoryDirectory(id), shared: {} };
  }

  /** Makes the shared memory and the IPC namespace of a pod, which stay without a process. */
  async #makeIpc(directory: string, sysctls: Readonly<Record<string, string>>): Promise<string> {
    const [shm, ipc] = [join(directory, 'shm'), join(directory, 'ipc')];
    if (existsSync(ipc)) {
      if (isMounted(ipc) && isMounted(shm)) return ipc; // of an earlier supervisor
      for (const path of [shm, ipc]) await unmountRoot(path); // that supervisor was killed between the two
    }
    const { mount = '', unshare = '', shell } = this.#tools;
    const settings = Object.entries(sysctls).filter(([name]) => isIpcSysctl(name));
    try {
      mkdirSync(shm, { recursive: true });
      writeFileSync(ipc, '');
      // in this mount namespace and the new IPC namespace
      const set = settings.flatMap(([name, value]) => [`/proc/sys/${name.replaceAll('.', '/')}`, value]);
      await run(unshare, [`--ipc=${ipc}`, '--', shell, '-c', writeSettings, 'oarlock', ...set, '--', mount, ...sharedMemory, shm], {
        timeout,
      });
    } catch (cause) {
      for (const path of [shm, ipc]) await unmountRoot(path); // the namespace may exist
      rmSync(ipc, { force: true });
      throw new SupervisorError('Internal', `cannot create the IPC namespace of the pod: ${(cause as Error).message}`, { cause });
    }
    return ipc;
  }

  async #startReaper(directory: string): Promise<number> {
    const file = join(directory, 'reaper');
    const existing = readHolder(file);
    if (existing && startTime(existing.pid) === existing.started) return existing.pid;
    const { shell, unshare = '' } = this.#tools;
    const child = spawn(unshare, ['--pid', '--fork', '--kill-child', '--', shell, '-c', reaper], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    });
    await new Promise<void>((resolve, reject) => {
      const fail = (reason: string) => reject(new SupervisorError('Internal', `cannot create the process namespace of the pod: ${reason}`));
      child.once('error', (error) => fail(error.message));
      child.once('exit', (code) => fail(`unshare ended with code ${code}`));
      child.stdout.once('data', () => resolve());
    });
    child.stdout.destroy();
    const [pid = 0] = childrenOf(child.pid ?? 0);
    const started = startTime(pid);
    if (started === undefined) throw new SupervisorError('Internal', 'the process namespace of the pod has ended');
    writeFileSync(file, JSON.stringify({ pid, started } satisfies Holder), { mode: 0o600 });
    return pid;
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Holder;
  } catch (error) {
    if (!isAbsentOrTruncated(error)) throw error;
    return undefined; // none, or truncated by a power failure
  }
}
