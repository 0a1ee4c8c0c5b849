import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

/** How many shells without a program stay open: pods that start at the same time run several CNI plugins. */
const maxIdleShells = 4;
/** The maximum length of a request in UTF-16 code units. A shell reads its input byte by byte, so a longer request costs as much as a fork of Node. */
const maxRequestLength = 8 * 1024;
const markBytes = 16;
/** Longer than the lines that end both outputs together. */
export const maxTrailerBytes = 128;

export interface ProgramRequest {
  readonly file: string;
  readonly args: readonly string[];
  /** The environment of the program. The program is searched in its `PATH`. */
  readonly env: Readonly<Record<string, string>> & { readonly PATH: string };
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

/**
 * The script of every shell. It reads requests as data, a word on each line, and never evaluates them: the number of words, the line that ends the
 * outputs, the input, PATH, the number of environment variables, these variables, the program and its arguments. The variables are not arguments of a
 * program such as `env`, because all users can read those.
 */
const script = String.raw`
run() {
  unset PWD OLDPWD SHLVL
  while [ "$oarlock_variables" -gt 0 ]; do
    export "$1"
    shift
    oarlock_variables=$((oarlock_variables - 1))
  done
  exec "$@"
}
while IFS= read -r count; do
  set --
  while [ $# -lt "$count" ]; do
    IFS= read -r word
    case $word in *\\*) word=$(printf '%b.' "$word"); word=${'$'}{word%.} ;; esac
    set -- "$@" "$word"
  done
  mark=$1 input=$2 path=$3 file=$4 oarlock_variables=$5
  shift 5
  if ! PATH=$path command -v "$file" >/dev/null 2>&1; then code=-
  elif [ -z "$input" ]; then (run "$@") </dev/null; code=$?
  else printf %s "$input" | (run "$@"); code=$?
  fi
  printf '\n%s %s\n' "$mark" "$code"
  printf '\n%s\n' "$mark" >&2
done`;

/** Returns the text as one line, in the form that printf decodes with `%b`. */
const line = (text: string) => `${text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n`;

/** Returns whether a shell can pass the request on without a change. A shell may take a program that begins with `-` for an option. */
export function fitsShell({ file, args, env, stdin }: ProgramRequest): boolean {
  const texts = [file, stdin, ...args, ...Object.keys(env), ...Object.values(env)];
  return (
    texts.reduce((sum, text) => sum + text.length, 0) <= maxRequestLength &&
    /^[^-]/.test(file) &&
    Object.keys(env).every((name) => /^[A-Za-z_]\w*$/.test(name)) &&
    texts.every((text) => !text.includes('\0'))
  );
}

/**
 * A shell that starts programs, one at a time. To start a program, Node forks itself, which copies its page tables while the event loop stands; a shell
 * is small (ADR 66 has the figures). All outputs of a shell are the same pipes: a random line ends the output of a program.
 */
export class ProgramShell {
  static readonly #idle: ProgramShell[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #mark = randomBytes(markBytes).toString('hex');
  #observer: ProgramObserver | undefined;
  readonly #tails = { stdout: '', stderr: '' };

  /** Returns an idle shell or a new one, which has this environment. Each use calls `run` once. */
  static take(env: Readonly<Record<string, string>>): ProgramShell {
    return ProgramShell.#idle.pop() ?? new ProgramShell(env);
  }

  private constructor(env: Readonly<Record<string, string>>) {
    // its own process group, which contains the program too
    this.#child = spawn('/bin/sh', ['-c', script], { detached: true, env, stdio: 'pipe', cwd: '/' });
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
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const words = [this.#mark, stdin, env.PATH, file, String(variables.length), ...variables, file, ...args];
    this.#child.stdin.write(`${words.length}\n${words.map(line).join('')}`);
  }

  /** Kills the shell and its program. @throws the system error */
  kill(): void {
    this.#retire();
    if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
  }

  #receive(stream: StreamName, chunk: Buffer): void {
    // a descendant of an earlier program writes: its output would be taken for that of the next one
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
