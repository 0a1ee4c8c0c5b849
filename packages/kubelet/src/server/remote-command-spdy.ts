import type { Duplex } from 'node:stream';
import type { Clock } from '@oarlock/kernel/clock';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { SpdyStream } from '@oarlock/spdy/stream';
import type { Streams } from '@oarlock/spi/runtime';
import { LinkedSignal } from '../linked-signal.ts';
import { outcome, problem, Resizes, resultOf, type RemoteCommandOptions, type RunCommand } from './remote-command.ts';

/** Stream protocols of remote commands over SPDY, best first: v3 adds sizes of the terminal, v4 the exit code. */
export const spdyCommandProtocols = ['v4.channel.k8s.io', 'v3.channel.k8s.io', 'v2.channel.k8s.io'] as const;
export type SpdyCommandProtocol = (typeof spdyCommandProtocols)[number];

const streamsWithinMs = 30_000;
type StreamType = 'error' | 'stdin' | 'stdout' | 'stderr' | 'resize';

/**
 * Joins a command's streams with those that the client opens over SPDY/3.1. Resolves when the command has ended, its outcome was sent, and
 * the connection closes. The signal aborts when the other side goes away.
 */
export async function serveSpdyCommand(
  { socket, head, protocol }: { readonly socket: Duplex; readonly head: Buffer; readonly protocol: SpdyCommandProtocol },
  options: RemoteCommandOptions,
  { stopped, clock }: { readonly stopped: AbortSignal; readonly clock: Clock },
  run: RunCommand,
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  const arriving = new Arriving(expected(options, protocol));
  const connection = new SpdyConnection(socket, { role: 'server', onStream: (stream) => arriving.take(stream) }, head);
  void connection.closed.then(() => {
    gone.abort(new Error('the client went away'));
    arriving.give();
  });
  const cut = () => connection.destroy();
  if (stopped.aborted) cut();
  else stopped.addEventListener('abort', cut, { once: true });
  const timer = clock.after(streamsWithinMs, cut);
  try {
    const streams = await arriving.all;
    timer.cancel();
    const error = streams.get('error');
    if (error === undefined) return;
    const resizes = sizesOf(streams.get('resize'));
    const [stdin, stdout, stderr] = [streams.get('stdin'), streams.get('stdout'), streams.get('stderr')];
    const joined: Streams = {
      tty: options.tty,
      ...(stdin && { stdin }),
      ...(stdout && { stdout }),
      ...(stderr && { stderr }),
      ...(resizes && { resize: resizes }),
    };
    await resizes?.begun(clock, gone.signal);
    const result = await resultOf(run(joined, gone.signal));
    resizes?.end();
    await Promise.all([stdout, stderr].map((output) => output && ended(output, '')));
    await ended(error, protocol === 'v4.channel.k8s.io' ? outcome(result) : (problem(result) ?? ''));
    await connection.close();
  } finally {
    timer.cancel();
    stopped.removeEventListener('abort', cut);
    gone.release();
    connection.destroy();
  }
}

function expected({ stdin, stdout, stderr, tty }: RemoteCommandOptions, protocol: SpdyCommandProtocol): ReadonlySet<StreamType> {
  return new Set<StreamType>([
    'error',
    ...(stdin ? (['stdin'] as const) : []),
    ...(stdout ? (['stdout'] as const) : []),
    ...(stderr && !tty ? (['stderr'] as const) : []),
    ...(tty && protocol !== 'v2.channel.k8s.io' ? (['resize'] as const) : []),
  ]);
}

/** The streams of a session, of which the client opens one after the other. */
class Arriving {
  readonly all: Promise<ReadonlyMap<StreamType, SpdyStream>>;
  readonly #wanted: ReadonlySet<string>;
  readonly #arrived = new Map<StreamType, SpdyStream>();
  #done!: (streams: ReadonlyMap<StreamType, SpdyStream>) => void;

  constructor(wanted: ReadonlySet<StreamType>) {
    this.#wanted = wanted;
    this.all = new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  take(stream: SpdyStream): void {
    const type = stream.headers['streamtype'] ?? '';
    stream.on('error', () => undefined); // who uses it is told by its close
    if (!this.#wanted.has(type) || this.#arrived.has(type as StreamType)) {
      stream.reset();
      return;
    }
    this.#arrived.set(type as StreamType, stream);
    stream.reply();
    // what is only written to is read to its end, so that it can close
    if (type !== 'stdin' && type !== 'resize') stream.resume();
    if (this.#arrived.size === this.#wanted.size) this.#done(this.#arrived);
  }

  /** No more will come. */
  give(): void {
    this.#done(new Map());
  }
}

/** A size in each line. */
function sizesOf(stream: SpdyStream | undefined): Resizes | undefined {
  if (stream === undefined) return undefined;
  const sizes = new Resizes();
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    const lines = (text + chunk.toString('utf8')).split('\n');
    text = (lines.pop() ?? '').slice(0, 1024);
    for (const line of lines) if (line.trim() !== '') sizes.read(line);
  });
  return sizes;
}

/** Resolves when the last words are on their way, or cannot be said any more. */
function ended(stream: SpdyStream, text: string): Promise<void> {
  if (stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    stream.once('close', resolve);
    stream.end(text, () => resolve());
  });
}
