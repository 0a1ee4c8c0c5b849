import type { Duplex } from 'node:stream';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { SpdyStream } from '@oarlock/spdy/stream';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import {
  commandStatus,
  plainErrorMessage,
  TerminalSizeQueue,
  commandResult,
  usedStreams,
  type RemoteCommandOptions,
  type RunCommand,
} from './internal/remote-command.ts';
import type { SessionOptions } from './internal/session-options.ts';

/** The subprotocols of remote commands over SPDY, in order of preference: v3 added terminal sizes, v4 added the exit code. */
export const spdyCommandProtocols = ['v4.channel.k8s.io', 'v3.channel.k8s.io', 'v2.channel.k8s.io'] as const;
export type SpdyCommandProtocol = (typeof spdyCommandProtocols)[number];

const streamsTimeoutMs = 30_000;
type StreamType = 'error' | 'stdin' | 'stdout' | 'stderr' | 'resize';

/**
 * Connects a command with the streams that the client opens over SPDY/3.1. Resolves when the command has ended, its result was sent, and
 * the connection closes. The command's signal aborts when the client disconnects.
 */
export async function serveSpdyCommand(
  { socket, head, protocol }: { readonly socket: Duplex; readonly head: Buffer; readonly protocol: SpdyCommandProtocol },
  options: RemoteCommandOptions,
  { stopped, clock, active }: SessionOptions,
  run: RunCommand,
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  const commandStreams = new CommandStreams(expected(options, protocol));
  const connection = new SpdyConnection(
    socket,
    { role: 'server', onStream: (stream) => commandStreams.take(stream), onFrame: active },
    head,
  );
  void connection.closed.then(() => {
    gone.abort(new Error('the client disconnected'));
    commandStreams.abandon();
  });
  const disconnect = () => connection.destroy();
  if (stopped.aborted) disconnect();
  else stopped.addEventListener('abort', disconnect, { once: true });
  const timer = clock.after(streamsTimeoutMs, disconnect);
  try {
    const streams = await commandStreams.all;
    timer.cancel();
    const error = streams.get('error');
    if (error === undefined) return;
    const resizes = sizesOf(streams.get('resize'));
    const [stdin, stdout, stderr] = [streams.get('stdin'), streams.get('stdout'), streams.get('stderr')];
    const joined = usedStreams(options.tty, { stdin, stdout, stderr, resize: resizes });
    await resizes?.waitForFirstSize(clock, gone.signal);
    const result = await commandResult(run(joined, gone.signal));
    resizes?.end();
    await Promise.all([stdout, stderr].map((output) => output && ended(output, '')));
    await ended(error, protocol === 'v4.channel.k8s.io' ? commandStatus(result) : (plainErrorMessage(result) ?? ''));
    await connection.close();
  } finally {
    timer.cancel();
    stopped.removeEventListener('abort', disconnect);
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

/** Collects the streams of a session, which the client opens one after the other. */
class CommandStreams {
  readonly all: Promise<ReadonlyMap<StreamType, SpdyStream>>;
  readonly #expected: ReadonlySet<string>;
  readonly #arrived = new Map<StreamType, SpdyStream>();
  #done!: (streams: ReadonlyMap<StreamType, SpdyStream>) => void;

  constructor(expectedTypes: ReadonlySet<StreamType>) {
    this.#expected = expectedTypes;
    this.all = new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  take(stream: SpdyStream): void {
    const type = stream.headers['streamtype'] ?? '';
    if (!this.#expected.has(type) || this.#arrived.has(type as StreamType)) {
      stream.reset();
      return;
    }
    this.#arrived.set(type as StreamType, stream);
    stream.reply();
    // drain output streams, so that they can close
    if (type !== 'stdin' && type !== 'resize') stream.resume();
    if (this.#arrived.size === this.#expected.size) this.#done(this.#arrived);
  }

  /** Ends the wait for the remaining streams, because the connection is closed. */
  abandon(): void {
    this.#done(new Map());
  }
}

/** Reads terminal sizes from a stream with one size per line; undefined without a stream. */
function sizesOf(stream: SpdyStream | undefined): TerminalSizeQueue | undefined {
  if (stream === undefined) return undefined;
  const sizes = new TerminalSizeQueue();
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    const lines = (text + chunk.toString('utf8')).split('\n');
    text = (lines.pop() ?? '').slice(0, 1024);
    for (const line of lines) if (line.trim() !== '') sizes.read(line);
  });
  return sizes;
}

/** Ends the stream with `text`. Resolves when the data is sent or the stream is closed. */
function ended(stream: SpdyStream, text: string): Promise<void> {
  if (stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    stream.once('close', resolve);
    stream.end(text, () => resolve());
  });
}
