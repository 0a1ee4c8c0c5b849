import type { Readable, Writable } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';

/** A command that runs in a container besides its program (exec). */
export interface Session {
  readonly argv: readonly string[];
  readonly stdin?: Readable | undefined;
  readonly stdout?: Writable | undefined;
  readonly stderr?: Writable | undefined;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly env: ReadonlyMap<string, string>;
  /** Commands that currently run in the same container. */
  readonly running: ReadonlySet<readonly string[]>;
  /** Returns the result of `oarlock.dev/probe KIND`. */
  probe(kind: string): boolean;
  /** Returns the output of `oarlock.dev/logs`. */
  logs(): string;
}

const block = Buffer.alloc(64 * 1024, 'x');

/** Resolves when the reader has accepted the bytes. */
function write(to: Writable | undefined, bytes: Buffer | string): Promise<void> {
  if (to === undefined || bytes.length === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    to.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

/**
 * Runs a command to its end and returns its exit code. Supported: `echo`, `complain` (echo to stderr), `exit CODE`, `true`, `false`,
 * `cat`, `wc` (counts the bytes of stdin), `repeat N` (N times x), `env NAME`, `printenv` (all), `sleep SECONDS|infinity [TOKEN]`, `pgrep TOKEN`, and the
 * kubelet's `oarlock.dev/probe KIND` and `oarlock.dev/logs`. Any other command prints `simulated: ` and the command, and exits 0.
 * Rejects with the signal's reason when it aborts.
 */
export async function runSession(session: Session): Promise<number> {
  const { argv, stdin, stdout, stderr, signal } = session;
  const [word = '', ...rest] = argv;
  signal.throwIfAborted();
  switch (word) {
    case 'oarlock.dev/probe': {
      const healthy = session.probe(rest[0] ?? '');
      if (!healthy) await write(stdout, 'simulated: not healthy');
      return healthy ? 0 : 1;
    }
    case 'oarlock.dev/logs':
      await write(stdout, session.logs());
      return 0;
    case 'echo':
      await write(stdout, rest.map((line) => `${line}\n`).join(''));
      return 0;
    case 'complain':
      await write(stderr, rest.map((line) => `${line}\n`).join(''));
      return 0;
    case 'exit':
      return Number(rest[0] ?? 0) & 255;
    case 'true':
      return 0;
    case 'false':
      return 1;
    case 'printenv':
      await write(stdout, [...session.env].map(([name, value]) => `${name}=${value}\n`).join(''));
      return 0;
    case 'env':
      await write(stdout, `${session.env.get(rest[0] ?? '') ?? ''}\n`);
      return 0;
    case 'cat':
      for await (const chunk of abortable(stdin, signal)) await write(stdout, chunk);
      return 0;
    case 'wc': {
      let bytes = 0;
      for await (const chunk of abortable(stdin, signal)) bytes += chunk.length;
      await write(stdout, `${bytes}\n`);
      return 0;
    }
    case 'repeat': {
      for (let remaining = Number(rest[0] ?? 0); remaining > 0; remaining -= block.length) {
        signal.throwIfAborted();
        await write(stdout, block.subarray(0, Math.min(remaining, block.length)));
      }
      await write(stdout, '\n');
      return 0;
    }
    case 'sleep':
      await session.clock.sleep(rest[0] === 'infinity' ? 2 ** 40 : Number(rest[0] ?? 0) * 1000, signal);
      return 0;
    case 'pgrep':
      return [...session.running].some((other) => other !== argv && other.includes(rest[0] ?? '')) ? 0 : 1;
    default:
      await write(stdout, `simulated: ${argv.join(' ')}\n`);
      return 0;
  }
}

async function* abortable(stdin: Readable | undefined, signal: AbortSignal): AsyncGenerator<Buffer> {
  if (stdin === undefined) return;
  const stop = () => {
    stdin.destroy(signal.reason as Error);
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of stdin) yield chunk as Buffer;
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
