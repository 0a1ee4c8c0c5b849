import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cgroupPath } from '@oarlock/process-supervisor/containers/containers';
import { onTerminal, type Launch } from '@oarlock/process-supervisor/containers/launch';
import { ProcessGroup, type HostServices } from '@oarlock/process-supervisor/containers/process-group';
import type { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { systemPath } from '@oarlock/process-supervisor/host/host-tools';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { RuntimeSpec, SpecProcess } from '../spec/runtime-spec.ts';
import { awaitFile } from './await-file.ts';
import type { ContainerProgram, ExecTarget, ProgramContainer, StartedProgram } from './container-program.ts';
import { exitOf, holder } from './holder.ts';
import { exitFile, OciProcess, pidFile } from './oci-process.ts';

const run = promisify(execFile);
const deleteTimeoutMs = 30_000;

export interface RuncOptions {
  /** Path of runc or crun. */
  readonly program: string;
  /** Where the program keeps its state. */
  readonly stateDirectory: string;
  readonly host: HostServices;
  readonly cgroups: CgroupManager | undefined;
}

/** Runs containers with `runc`, or a program with the same commands, such as `crun`. */
export class Runc implements ContainerProgram {
  readonly #options: RuncOptions;
  #execs = 0;

  constructor(options: RuncOptions) {
    this.#options = options;
  }

  async run({ record, sandbox, directory }: ProgramContainer, spec: RuntimeSpec): Promise<StartedProgram> {
    const { stdin, tty } = record.config;
    const { host, cgroups } = this.#options;
    const log = join(directory, 'runc.log');
    const pid = join(directory, pidFile);
    for (const path of [log, pid, join(directory, exitFile)]) rmSync(path, { force: true });
    const command = this.#command(log, ['run', '--keep', '--bundle', directory, '--pid-file', pid, record.id]);
    const { command: inner, environment } = onTerminal({ command, environment: { PATH: systemPath }, tty }, host.tools);
    const args = ['-c', holder, 'oarlock-holder', join(directory, exitFile), ...inner];
    const owner = spec.process.user;
    const process = await this.#start({ file: host.tools.shell, args, environment, depth: 1, tty, pid, log, stdin, owner, directory });
    return { process, cgroup: cgroups?.find(cgroupPath({ record, sandbox })) };
  }

  async exec({ record, directory }: ProgramContainer, process: SpecProcess, { stdin }: ExecTarget): Promise<OciProcess> {
    const tty = process.terminal;
    const files = join(directory, `exec-${++this.#execs}`);
    const [config, pid, log] = [`${files}.json`, `${files}.pid`, `${files}.log`];
    try {
      writeFileSync(config, JSON.stringify(process), { mode: 0o600 });
      const command = this.#command(log, ['exec', '--process', config, '--pid-file', pid, record.id]);
      const { command: inner, environment } = onTerminal({ command, environment: { PATH: systemPath }, tty }, this.#options.host.tools);
      const [file = '', ...args] = inner;
      return await this.#start({ file, args, environment, depth: 0, tty, pid, log, stdin, owner: process.user });
    } finally {
      for (const path of [config, pid, log]) rmSync(path, { force: true });
    }
  }

  /** Removes what the program keeps about the container, and its control groups. */
  async delete({ record }: ProgramContainer): Promise<void> {
    const { program, stateDirectory } = this.#options;
    await run(program, ['--root', stateDirectory, 'delete', '--force', record.id], { timeout: deleteTimeoutMs });
  }

  #command(log: string, words: readonly string[]): readonly string[] {
    const { program, stateDirectory } = this.#options;
    return [program, '--root', stateDirectory, '--log', log, '--log-format', 'json', ...words];
  }

  async #start(request: {
    readonly file: string;
    readonly args: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
    readonly depth: number;
    readonly tty: boolean;
    readonly stdin: boolean;
    readonly pid: string;
    readonly log: string;
    readonly owner: { readonly uid: number; readonly gid: number };
    /** Where the pipes stay; for a container's own command. */
    readonly directory?: string;
  }): Promise<OciProcess> {
    const { file, args, environment, depth, tty, stdin, owner, directory } = request;
    const launch: Launch = { file, args, environment, directory: '/', owner, reports: false, depth, tty };
    const group = await ProcessGroup.start(launch, this.#options.host, {
      stdin,
      nice: 0,
      ...(directory !== undefined && { pipeDirectory: directory }),
    });
    const ended = new AbortController();
    void group.exited.then(() => ended.abort());
    const pid = (await awaitFile(request.pid, () => readPid(request.pid), ended.signal)) ?? readPid(request.pid);
    if (pid === undefined) {
      await group.exited;
      for (const stream of [group.stdin, group.stdout, group.stderr]) stream?.destroy();
      throw new SupervisorError('FailedPrecondition', failureOf(request.log));
    }
    const identity = { pid, started: startTime(pid) };
    const { clock, tools } = this.#options.host;
    const exited = directory === undefined ? group.exited : exitOf(group, identity, { directory, clock });
    return new OciProcess({ ...identity, tty, exited, stty: tools.stty, stdin: group.stdin, stdout: group.stdout, stderr: group.stderr });
  }
}

function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'latin1').trim());
    return Number.isInteger(pid) && pid > 0 ? pid : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Returns the last error in the program's log. */
function failureOf(path: string): string {
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const messages = text.split('\n').flatMap((line) => {
    try {
      const { level, msg } = JSON.parse(line) as { readonly level?: string; readonly msg?: string };
      return level === 'error' && msg !== undefined ? [msg] : [];
    } catch {
      return []; // an empty or incomplete line
    }
  });
  return (messages.at(-1) ?? 'the OCI runtime ended without a message').slice(0, 4096);
}
