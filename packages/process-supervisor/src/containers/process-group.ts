import { execFile, spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { closeSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';
import type { ContainerProcess } from './container-process.ts';
import { startedReport, type Launch } from './launch.ts';
import type { Pipe, PipeStock } from './pipes.ts';
import { childrenOf } from '../host/process-table.ts';
import { SupervisorError } from '../protocol/supervisor-protocol.ts';
import type { Tools } from '../host/host-tools.ts';

export interface StartOptions {
  readonly stdin: boolean;
  readonly nice: number;
  readonly oomScoreAdjust?: number;
}
export interface HostServices {
  readonly tools: Tools;
  readonly pipes: PipeStock | undefined;
  readonly clock: Clock;
}

/** The shell's exit code for a process that a signal ended. */
const signalExitCode = (signal: NodeJS.Signals) => 128 + (constants.signals[signal] ?? 0);

/** What a process group is started with. */
export interface ProcessGroupOptions {
  readonly launch: Launch;
  readonly host: HostServices;
  readonly streams: { stdin: Writable | undefined; stdout: Readable; stderr: Readable | undefined };
}

/** The process group of a command: a process in its own session, its descendants in that session, and the supervisor's ends of its streams. */
export class ProcessGroup implements ContainerProcess {
  readonly pid: number;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  /** The stderr of the process; undefined on a terminal, which merges stderr into stdout. */
  readonly stderr: Readable | undefined;
  /** Resolves with the exit code of the first process. Its children may live on. */
  readonly exited: Promise<number>;
  readonly #launch: Launch;
  readonly #host: HostServices;
  #ended = false;

  private constructor(child: ChildProcess, { launch, host, streams }: ProcessGroupOptions) {
    this.pid = child.pid ?? 0;
    this.#launch = launch;
    this.#host = host;
    this.stdin = streams.stdin;
    this.stdout = streams.stdout;
    this.stderr = streams.stderr;
    this.stdin?.on('error', () => {}); // EPIPE: the process closed its input
    for (const output of [this.stdout, this.stderr]) output?.on('error', () => {}); // handled by 'close'
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#ended = true;
        resolve(code ?? signalExitCode(signal ?? 'SIGKILL'));
      });
    });
  }

  /** Starts a command and resolves when it has started. @throws SupervisorError with the reason why the command could not start */
  static async start(launch: Launch, host: HostServices, { stdin, nice, oomScoreAdjust }: StartOptions): Promise<ProcessGroup> {
    if (!statSync(launch.directory, { throwIfNoEntry: false })?.isDirectory())
      throw new SupervisorError('FailedPrecondition', `chdir to cwd ("${launch.directory}") failed: no such file or directory`);
    const pipes = host.pipes ? await openPipes(host.pipes, launch, stdin) : undefined;
    const ends = pipes
      ? [pipes.stdin?.inner ?? 'ignore', pipes.stdout.inner, pipes.stderr?.inner ?? pipes.stdout.inner]
      : [stdin ? 'pipe' : 'ignore', 'pipe', launch.tty ? 'ignore' : 'pipe'];
    const stdio = [...ends, ...(launch.reports ? ['pipe'] : [])] as StdioOptions;
    let child: ChildProcess;
    try {
      child = spawn(launch.file, launch.args, {
        cwd: launch.directory,
        env: launch.environment,
        detached: true,
        stdio,
        ...(launch.uid !== undefined && { uid: launch.uid }),
        ...(launch.gid !== undefined && { gid: launch.gid }),
      });
    } finally {
      for (const pipe of [pipes?.stdin, pipes?.stdout, pipes?.stderr]) if (pipe) closeSync(pipe.inner);
    }
    const stdout = pipes ? pipes.stdout.outer : child.stdout;
    const stderr = launch.tty ? undefined : pipes ? pipes.stderr?.outer : child.stderr;
    if (!stdout) throw new SupervisorError('Internal', 'a process was started without an output');
    const report = launch.reports ? readReport(child) : undefined; // before 'spawn': a short process closes it earlier
    const group = new ProcessGroup(child, {
      launch,
      host,
      streams: {
        stdin: (pipes ? pipes.stdin?.outer : child.stdin) ?? undefined,
        stdout,
        stderr: stderr ?? undefined,
      },
    });
    try {
      await spawned(child);
      group.#adjust([group.pid], nice, oomScoreAdjust);
      const failure = await report;
      if (failure !== undefined && failure !== '') throw new SupervisorError('FailedPrecondition', failure);
      // the wrapper may have forked before it was adjusted
      if (launch.depth > 0) group.#adjust(group.#chain(), nice, oomScoreAdjust);
    } catch (error) {
      group.kill();
      for (const stream of [group.stdin, group.stdout, group.stderr]) stream?.destroy();
      throw error instanceof SupervisorError
        ? error
        : new SupervisorError('FailedPrecondition', (error as Error).message, { cause: error });
    }
    return group;
  }

  /** Sends a signal to the process group. */
  signal(signal: number): void {
    for (const group of this.#groups()) send(group, signal);
  }

  /** Kills the process group, including processes that are left after the first one has exited. */
  kill(): void {
    const groups = this.#groups();
    for (const group of groups) send(group, constants.signals.SIGKILL);
    // on a terminal, `script` writes the last output and ends by itself
    const wrapperEnds = this.#launch.tty && groups.length > 0;
    if (this.#ended || (this.#launch.depth > 0 && !wrapperEnds)) send(this.pid, constants.signals.SIGKILL);
  }

  /** Returns the processes that hold the namespaces of an isolated container. @throws SupervisorError `FailedPrecondition` if it is ending */
  namespaceHolders(): { readonly init: number; readonly command: number } {
    const [command, init] = this.#chain().reverse();
    if (command === undefined || init === undefined) throw new SupervisorError('FailedPrecondition', 'the container is ending');
    return { init, command: namespacePid(command) };
  }

  /** Returns the spawned process and its wrappers' children down to the command; none while the process ends. */
  #chain(): number[] {
    const chain = [this.pid];
    for (let depth = 0; depth < this.#launch.depth; depth++) {
      const [child] = childrenOf(chain.at(-1) ?? 0); // adopted orphans come after the first child
      if (child === undefined) return [];
      chain.push(child);
    }
    return chain;
  }

  /** Changes the size of the terminal; the kernel notifies its programs. Does nothing without a terminal. */
  async resize({ width, height }: { readonly width: number; readonly height: number }): Promise<void> {
    const { stty } = this.#host.tools;
    if (!this.#launch.tty || stty === undefined || !isSize(width) || !isSize(height)) return;
    const [terminal] = await this.#terminalProcesses();
    if (terminal === undefined) return;
    // the name of the terminal is that in the container: the descriptor leads to the right one
    const device = `/proc/${terminal}/fd/0`;
    await new Promise<void>((resolve) => {
      execFile(stty, ['-F', device, 'rows', String(height), 'cols', String(width)], { timeout: 5000 }, () => resolve());
    });
  }

  /** Returns the process groups to signal. `script` runs its child in a session of its own, and forwards only some signals. */
  #groups(): readonly number[] {
    const command = this.#ended ? undefined : this.#chain().at(-1);
    if (command === undefined) return [];
    const children = this.#launch.tty ? childrenOf(command) : [];
    return children.length > 0 ? children : [command];
  }

  /** Returns the processes on the terminal. `script` takes a moment to start them. */
  async #terminalProcesses(): Promise<readonly number[]> {
    for (let attempt = 0; attempt < 50 && !this.#ended; attempt++) {
      const ready = childrenOf(this.#chain().at(-1) ?? 0).filter((pid) => {
        try {
          return readlinkSync(`/proc/${pid}/fd/0`).startsWith('/dev/pts/');
        } catch {
          return false;
        }
      });
      if (ready.length > 0) return ready;
      await this.#host.clock.sleep(10);
    }
    return [];
  }

  #adjust(pids: readonly number[], nice: number, oomScoreAdjust: number | undefined): void {
    try {
      for (const pid of pids) {
        if (nice !== 0) setPriority(pid, nice);
        if (oomScoreAdjust !== undefined && process.platform === 'linux')
          writeFileSync(`/proc/${pid}/oom_score_adj`, String(oomScoreAdjust));
      }
    } catch (error) {
      // only root may lower these values; the process may have exited already
      const { code } = error as NodeJS.ErrnoException & { info?: { code?: string } };
      if (!['EACCES', 'EPERM', 'ENOENT', 'ESRCH', 'ERR_SYSTEM_ERROR'].includes(code ?? '')) throw error;
    }
  }
}

/** Returns the process id that a process has in its own process namespace. */
function namespacePid(pid: number): number {
  const line = /^NSpid:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? String(pid);
  return Number(line.split(/\s+/).at(-1));
}

const isSize = (value: number) => Number.isInteger(value) && value >= 0 && value <= 65_535;

function send(group: number, signal: number): void {
  try {
    process.kill(-group, signal);
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

interface Pipes {
  readonly stdin: Pipe | undefined;
  readonly stdout: Pipe;
  readonly stderr: Pipe | undefined;
}
async function openPipes(stock: PipeStock, launch: Launch, stdin: boolean): Promise<Pipes> {
  const opened = await Promise.all([
    stdin ? stock.input(launch.owner) : undefined,
    stock.output(launch.owner),
    launch.tty ? undefined : stock.output(launch.owner),
  ]);
  return { stdin: opened[0], stdout: opened[1], stderr: opened[2] };
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
}

/** Returns the failure that the wrapper script reports; empty if the command started. */
function readReport(child: ChildProcess): Promise<string> {
  const report = child.stdio[3] as Readable | null | undefined;
  return new Promise((resolve) => {
    if (!report) {
      resolve('');
      return;
    }
    let text = '';
    report.on('data', (chunk: Buffer) => {
      if (text.length < 4096) text += chunk.toString();
      if (text === startedReport) report.destroy();
    });
    report.once('error', () => {}); // handled by 'close'
    report.once('close', () => resolve(text === startedReport ? '' : text));
  });
}
