import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { wrapperPrograms } from './internal/container-launch.ts';
import type { Launch } from '@oarlock/process-supervisor/containers/launch';
import { buildLaunch } from './internal/process-launch.ts';
import type { Tools } from '@oarlock/process-supervisor/host/host-tools';
import type { Isolation, IsolationMode } from '@oarlock/process-supervisor/protocol/isolation';
import type { HiddenDirectories } from '../isolation/isolation.ts';
import { readMountTable } from '@oarlock/process-supervisor/host/mount-table';
import { createPodView } from '../isolation/pod-view.ts';

export interface IsolationProbeOptions {
  readonly tools: Tools;
  readonly hidden: HiddenDirectories;
  /** A hidden directory, in which the probe plants a file. */
  readonly dataDir: string;
  /** The config of the plugin. */
  readonly isolation: 'auto' | 'required' | 'none';
  readonly namespaces: boolean;
}

const timeoutMs = 10_000;
const maxReportLength = 500;
/** Reports success only if the planted file is invisible and the first process, which holds the mounts, is out of reach. SECRET */
const attack =
  'if [ -e "$1" ]; then echo "a file of the data directory is visible"; elif cat /proc/1/environ >/dev/null 2>&1; then echo "the process that holds the mounts is accessible"; else echo isolated; fi';

/** Runs one isolated process and checks that it cannot see a file of the data directory. Returns the isolation mode, or why pods cannot be isolated. */
export async function probeIsolation(options: IsolationProbeOptions): Promise<Isolation> {
  const { tools, isolation, namespaces } = options;
  const none = (reason: string): Isolation => ({ mode: 'none', reason, mountsVolumes: tools.namespaces });
  if (isolation === 'none') return none('the config of runtime-process has `isolation: none`');
  if (!namespaces) return none('the config of runtime-process has `namespaces: false`');
  if (process.platform !== 'linux') return none(`${process.platform} has no namespaces`);
  const missing = (['unshare', 'mount', 'umount', 'pivotRoot', 'nsenter', 'setpriv', 'setsid', 'env', 'stat'] as const).filter(
    (name) => tools[name] === undefined,
  );
  if (missing.length > 0)
    return none(
      `programs of util-linux or coreutils are not installed: ${missing.map((name) => (name === 'pivotRoot' ? 'pivot_root' : name)).join(', ')}`,
    );
  if (!existsSync(`/proc/self/task/${process.pid}/children`)) return none('the kernel does not list the children of processes in /proc');
  const mode: IsolationMode = tools.root ? 'root' : 'user';
  let problem: string;
  try {
    problem = await runProbe(options, mode);
  } catch (error) {
    problem = (error as Error).message;
  }
  return problem === '' ? { mode } : none(`${hint(mode)}${problem}`);
}

/** Returns what failed; empty if the process was isolated. */
async function runProbe({ tools, hidden, dataDir }: IsolationProbeOptions, mode: IsolationMode): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const directory = await mkdtemp(join(dataDir, 'probe-'));
  try {
    const secret = join(directory, 'secret');
    await writeFile(secret, 'secret', { mode: 0o600 });
    const container = join(directory, 'container');
    await mkdir(container);
    const view = createPodView({
      mode,
      hidden,
      table: readMountTable(),
      directory: container,
      podDirectory: directory,
      home: hidden.home,
      owner: {},
      mounts: [],
      files: {},
      cgroups: [],
      maskedPaths: [],
      readonlyPaths: ['/proc/sys'],
      wrapperPrograms: wrapperPrograms(tools),
    });
    const launch = buildLaunch(
      {
        command: [tools.shell, '-c', attack, 'probe', secret],
        environment: {},
        directory: '/',
        tty: false,
        credentials: { groups: [], noNewPrivileges: true },
        cgroups: [],
        isolate: { mode, processes: true, view, hostname: '' },
      },
      tools,
    );
    const { output, failure } = await outputOf(launch);
    if (output.trim() === 'isolated') return '';
    return (failure.trim() || output.trim() || 'the isolated process wrote nothing').slice(0, maxReportLength);
  } finally {
    // the kernel waits some 70 ms before it removes a directory that was a mount point
    await rm(directory, { recursive: true, force: true });
  }
}

function outputOf({ file, args, environment, directory }: Launch): Promise<{ readonly output: string; readonly failure: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: directory,
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    const texts = ['', ''];
    const collect = (index: 0 | 1, source: Readable | null | undefined) =>
      source?.on('data', (chunk: Buffer) => {
        if ((texts[index]?.length ?? 0) < maxReportLength) texts[index] += chunk.toString();
      });
    collect(0, child.stdout);
    collect(1, child.stderr);
    collect(1, child.stdio[3] as Readable | null);
    child.once('error', reject);
    child.once('close', () => resolve({ output: texts[0] ?? '', failure: texts[1] ?? '' }));
  });
}

/** Returns which setting of the kernel denies user namespaces, if one does. */
function hint(mode: IsolationMode): string {
  if (mode === 'root') return '';
  const value = (name: string) => {
    try {
      return readFileSync(`/proc/sys/${name}`, 'utf8').trim();
    } catch {
      return undefined; // this kernel does not have it
    }
  };
  const denials = {
    'kernel/unprivileged_userns_clone': '0',
    'user/max_user_namespaces': '0',
    'kernel/apparmor_restrict_unprivileged_userns': '1',
  };
  const found = Object.entries(denials).filter(([name, denied]) => value(name) === denied);
  return found
    .map(([name, denied]) => `unprivileged user namespaces are restricted (sysctl ${name.replaceAll('/', '.')} is ${denied}): `)
    .join('');
}
