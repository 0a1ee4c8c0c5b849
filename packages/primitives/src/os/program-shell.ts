import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

/** How many shells without a program stay open: pods that start at the same time run several CNI plugins. */
const maxIdleShells = 4;
/** Programs with more input run without a shell, which would have to parse it. */
const maxInputBytes = 64 * 1024;
const markBytes = 16;
/** Longer than the lines that end both outputs together. */
export const maxTrailerBytes = 128;

export interface ProgramRequest {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}
const streams = ['stdout', 'stderr'] as const;
export type StreamName = (typeof streams)[number];

/** Receives the output of a program, and how it ended. */
export interface ProgramObserver {
  output(stream: StreamName, chunk: Buffer): void;
  /** The program ended by itself. The line that ends the output is the last part of the output and has `trailer` bytes. */
  ended(exitCode: number, trailer: Readonly<Record<StreamName, number>>): void;
  /** The shell did not find the program, or could not be started. */
  notStarted(): void;
  /** The shell exited, and with it the program. */
  killed(): void;
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns whether a shell can pass the request on without a change. */
export const fitsShell = ({ file, args, env, stdin }: ProgramRequest): boolean =>
  stdin.length <= maxInputBytes &&
  Object.keys(env).every((name) => /^[A-Za-z_]\w*$/.test(name)) &&
  [file, stdin, ...args, ...Object.values(env)].every((text) => !text.includes('\0'));

/**
 * A shell that starts programs, one at a time. To start a program, Node forks itself, which copies its page tables: 10 ms of processor time, during
 * which the event loop stands, for a process with 100 MiB; a shell needs less than one. All outputs of a shell are the same pipes: a random line ends
 * the output of a program.
 */
export class ProgramShell {
  static readonly #idle: ProgramShell[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #mark = randomBytes(markBytes).toString('hex');
  #observer: ProgramObserver | undefined;
  readonly #tails = { stdout: '', stderr: '' };

  /** Returns an idle shell or a new one. Each use calls `run` once. */
  static take(env: Readonly<Record<string, string>>): ProgramShell {
    return ProgramShell.#idle.pop() ?? new ProgramShell(env);
  }

  private constructor(env: Readonly<Record<string, string>>) {
    // its own process group, which contains the program too
    this.#child = spawn('/bin/sh', [], { detached: true, env, stdio: 'pipe', cwd: '/' });
    for (const stream of streams) this.#child[stream].on('data', (chunk: Buffer) => this.#receive(stream, chunk));
    this.#child.stdin.on('error', () => {}); // a shell that was killed reports it by its exit
    this.#child.once('error', () => this.#release()?.notStarted());
    this.#child.once('exit', () => {
      this.#retire();
      this.#release()?.killed();
      // a descendant of the program may hold the pipes open for ever
      for (const stream of streams) this.#child[stream].destroy();
    });
  }

  run({ file, args, env, stdin }: ProgramRequest, observer: ProgramObserver): void {
    this.#observer = observer;
    Object.assign(this.#tails, { stdout: '', stderr: '' });
    this.#keepAlive(true);
    const variables = Object.entries(env).map(([name, value]) => `${name}=${quote(value)} `);
    const path = env['PATH'] === undefined ? '' : `PATH=${quote(env['PATH'])} `;
    const program = `${variables.join('')}${[file, ...args].map(quote).join(' ')}`;
    const input = stdin === '' ? `${program} </dev/null` : `printf %s ${quote(stdin)} | ${program}`;
    const report = (code: string) => `printf '\\n%s %s\\n' ${this.#mark} ${code}; printf '\\n%s\\n' ${this.#mark} >&2`;
    this.#child.stdin.write(
      `unset PWD OLDPWD SHLVL; if ${path}command -v ${quote(file)} >/dev/null 2>&1; then ${input}\n${report('$?')}; else ${report('-')}; fi\n`,
    );
  }

  /** Kills the shell and its program. @throws the system error */
  kill(): void {
    this.#retire();
    if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
  }

  #receive(stream: StreamName, chunk: Buffer): void {
    // a descendant of an earlier program writes: its output would become part of that of the next
    if (this.#observer === undefined) return this.#retire();
    this.#tails[stream] = `${this.#tails[stream]}${chunk.subarray(-maxTrailerBytes).toString('latin1')}`.slice(-maxTrailerBytes);
    this.#observer.output(stream, chunk);
    const { stdout, stderr } = this.#tails;
    const end = new RegExp(`\\n${this.#mark} (\\d+|-)\\n$`).exec(stdout);
    const trailer = `\n${this.#mark}\n`;
    if (end === null || !stderr.endsWith(trailer)) return;
    const observer = this.#release();
    if (this.#child.stdin.writable && ProgramShell.#idle.length < maxIdleShells) ProgramShell.#idle.push(this);
    else this.#retire();
    if (end[1] === '-') observer?.notStarted();
    else observer?.ended(Number(end[1]), { stdout: end[0].length, stderr: trailer.length });
  }

  #release(): ProgramObserver | undefined {
    const observer = this.#observer;
    this.#observer = undefined;
    this.#keepAlive(false);
    return observer;
  }

  #retire(): void {
    const at = ProgramShell.#idle.indexOf(this);
    if (at >= 0) ProgramShell.#idle.splice(at, 1);
    this.#child.stdin.end();
  }

  /** An idle shell does not keep this process alive. */
  #keepAlive(busy: boolean): void {
    const change = busy ? 'ref' : 'unref';
    for (const handle of [
      this.#child,
      ...[this.#child.stdin, this.#child.stdout, this.#child.stderr].map((pipe) => pipe as unknown as Socket),
    ])
      handle[change]();
  }
}
