import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Clock } from '@oarlock/primitives/clock';
import { onTerminal, type Launch } from '@oarlock/process-supervisor/containers/launch';
import { ProcessGroup, type HostServices } from '@oarlock/process-supervisor/containers/process-group';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { systemPath } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { RuntimeSpec, SpecProcess } from '../spec/runtime-spec.ts';
import { awaitFile } from './await-file.ts';
import { exitFile, isSame, OciProcess, pidFile, readExit } from './oci-process.ts';

const run = promisify(execFile);
const deleteTimeoutMs = 30_000;

/**
 * Runs `runc run` in the foreground and keeps its exit code in a file, also when the supervisor has ended. EXIT COMMAND...
 */
const holder = `exit=$1; shift
"$@"
code=$?
printf '%s\\n' "$code" > "$exit"
exit "$code"`;

export interface ContainerDirectory {
  readonly id: string;
  /** Directory of the container's files; it has the bundle. */
  readonly directory: string;
}
export interface ProcessRequest {
  readonly stdin: boolean;
  readonly tty: boolean;
}

/** Runs containers with `runc`, or a program with the same commands, such as `crun`. */
export class Runc {
  readonly #program: string;
  /** Where the program keeps its state. */
  readonly #stateDirectory: string;
  readonly #host: HostServices;
  #execs = 0;

  constructor(program: string, stateDirectory: string, host: HostServices) {
    this.#program = program;
    this.#stateDirectory = stateDirectory;
    this.#host = host;
  }

  /** Starts a container. @throws SupervisorError with the program's message */
  async run({ id, directory }: ContainerDirectory, spec: RuntimeSpec, { stdin, tty }: ProcessRequest): Promise<OciProcess> {
    writeFileSync(join(directory, 'config.json'), JSON.stringify(spec), { mode: 0o600 });
    const log = join(directory, 'runc.log');
    const pid = join(directory, pidFile);
    for (const path of [log, pid, join(directory, exitFile)]) rmSync(path, { force: true });
    const command = this.#command(log, ['run', '--keep', '--bundle', directory, '--pid-file', pid, id]);
    const { command: inner, environment } = onTerminal({ command, environment: { PATH: systemPath }, tty }, this.#host.tools);
    const { shell } = this.#host.tools;
    const args = ['-c', holder, 'oarlock-holder', join(directory, exitFile), ...inner];
    return this.#start({ file: shell, args, environment, depth: 1, tty, pid, log, stdin, owner: spec.process.user, directory });
  }

  /** Starts another process in a container. @throws SupervisorError with the program's message */
  async exec({ id, directory }: ContainerDirectory, process: SpecProcess, { stdin, tty }: ProcessRequest): Promise<OciProcess> {
    const files = join(directory, `exec-${++this.#execs}`);
    const [config, pid, log] = [`${files}.json`, `${files}.pid`, `${files}.log`];
    try {
      writeFileSync(config, JSON.stringify({ ...process, terminal: tty }), { mode: 0o600 });
      const command = this.#command(log, ['exec', '--process', config, '--pid-file', pid, id]);
      const { command: inner, environment } = onTerminal({ command, environment: { PATH: systemPath }, tty }, this.#host.tools);
      const [file = '', ...args] = inner;
      return await this.#start({ file, args, environment, depth: 0, tty, pid, log, stdin, owner: process.user });
    } finally {
      for (const path of [config, pid, log]) rmSync(path, { force: true });
    }
  }

  /** Removes what the program keeps about a container that has ended, and its control groups. Succeeds if there is nothing. */
  async delete(id: string): Promise<void> {
    await run(this.#program, ['--root', this.#stateDirectory, 'delete', '--force', id], { timeout: deleteTimeoutMs });
  }

  #command(log: string, words: readonly string[]): readonly string[] {
    return [this.#program, '--root', this.#stateDirectory, '--log', log, '--log-format', 'json', ...words];
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
    const group = await ProcessGroup.start(launch, this.#host, {
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
    const { clock, tools } = this.#host;
    const exited = directory === undefined ? group.exited : exitOf(group, identity, { directory, clock });
    return new OciProcess({ ...identity, tty, exited, stty: tools.stty, stdin: group.stdin, stdout: group.stdout, stderr: group.stderr });
  }
}

/** How often a container is looked at whose holder was killed. */
const livenessIntervalMs = 500;

/** Returns the exit code of a container; undefined if its holder was killed before the container ended. */
async function exitOf(
  group: ProcessGroup,
  identity: { readonly pid: number; readonly started: string | undefined },
  { directory, clock }: { readonly directory: string; readonly clock: Clock },
): Promise<number | undefined> {
  const code = await group.exited;
  if (!isSame(identity)) return readExit(directory)?.exitCode ?? code;
  while (isSame(identity)) await clock.sleep(livenessIntervalMs);
  return undefined;
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
