import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { RuntimeError, type Streams } from '@oarlock/spi/runtime';
import { dialSpdy } from '@oarlock/spdy/dial';
import { SpdyError } from '@oarlock/spdy/frames';
import type { SpdyStream } from '@oarlock/spdy/stream';

/** The newest protocol version over SPDY, because v5 requires WebSocket. Its error stream carries a Status in JSON. */
const protocol = 'v4.channel.k8s.io';
const maxStatusBytes = 64 * 1024;

export interface SessionOptions {
  readonly signal?: AbortSignal | undefined;
  readonly idleMs: number;
}
export interface CommandOptions extends SessionOptions {
  /** Resolves with the exit code if the session does not report a status after the process has exited. */
  readonly overdue?: Promise<number>;
}

/**
 * Runs one exec or attach session at a streaming URL of the runtime.
 * Resolves with the exit code after all output was written. Does not end the caller's streams.
 * @throws RuntimeError if the session fails, the signal's reason if the signal aborts
 */
export async function remoteCommand(
  url: string,
  streams: Streams,
  { signal, idleMs, overdue = new Promise(() => {}) }: CommandOptions,
): Promise<number> {
  const { connection } = await dialSpdy(url, { protocols: [protocol], idleMs, ...(signal && { signal }) }).catch(toRuntimeError);
  const abort = () => connection.destroy(signal?.reason as Error);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    if (signal?.aborted) throw signal.reason;
    const open = (streamType: string) => connection.open({ streamType });
    const error = open('error');
    const stdin = streams.stdin && open('stdin');
    const stdout = open('stdout');
    const stderr = streams.stderr && !streams.tty ? open('stderr') : undefined;
    const resize = streams.tty && streams.resize ? open('resize') : undefined;
    const all = [error, stdin, stdout, stderr, resize].filter((stream) => stream !== undefined);
    await Promise.all(all.map((stream) => stream.replied));

    const stopStdin = stdin && streams.stdin ? feed(streams.stdin, stdin, (failure) => connection.destroy(failure)) : undefined;
    if (resize && streams.resize) void sendSizes(resize, streams.resize);
    try {
      const outputs = [drain(stdout, streams.stdout), stderr && drain(stderr, streams.stderr)];
      const [code] = await Promise.all([Promise.race([readStatus(error).then(exitCode), overdue]), ...outputs]);
      return code;
    } finally {
      stopStdin?.();
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    return toRuntimeError(error);
  } finally {
    signal?.removeEventListener('abort', abort);
    connection.destroy();
  }
}

/**
 * Copies `source` to stdin until `source` ends, and then ends stdin. Returns a function that stops the copy. `pipe` is not used, because it keeps
 * writing to a destroyed stream until the next turn of the event loop, which an endless source never yields to.
 */
function feed(source: Readable, stdin: SpdyStream, failed: (error: Error) => void): () => void {
  const take = (chunk: Buffer) => {
    if (stdin.destroyed) stop();
    else if (!stdin.write(chunk)) source.pause();
  };
  const resume = () => {
    source.resume();
  };
  const end = () => {
    stdin.end();
  };
  const stop = () => {
    source.off('data', take).off('end', end).off('error', failed);
    stdin.off('drain', resume).off('close', stop);
    source.pause();
  };
  source.on('data', take).once('end', end).once('error', failed);
  stdin.on('drain', resume).once('close', stop);
  // a source that has already ended emits no 'end'
  if (source.readableEnded) end();
  // this direction carries only the end of the stream
  stdin.resume();
  return stop;
}

/** Sends each terminal size as one JSON line with the field names of Go's struct. */
async function sendSizes(resize: SpdyStream, sizes: NonNullable<Streams['resize']>): Promise<void> {
  const ended = once(resize, 'close').then(() => undefined);
  const iterator = sizes[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), ended]);
      if (!next || next.done) return;
      resize.write(`${JSON.stringify({ Width: next.value.width, Height: next.value.height })}\n`);
    }
  } catch (error) {
    resize.destroy(error as Error);
  } finally {
    // not awaited: the source may never yield another size
    void iterator.return?.();
  }
}

/** Copies a stream to `to` with back-pressure, and resolves when all data was written. Without `to`, the data is discarded. */
function drain(from: SpdyStream, to: Writable | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let ended = false;
    let pendingWrites = 0;
    const checkDone = () => {
      if (ended && pendingWrites === 0) settle(resolve);
    };
    const writeDone = (error?: Error | null) => {
      pendingWrites -= 1;
      if (error) fail(error);
      else checkDone();
    };
    const take = (chunk: Buffer) => {
      if (!to) return;
      pendingWrites += 1;
      if (!to.write(chunk, writeDone)) from.pause();
    };
    const resume = () => {
      from.resume();
    };
    const end = () => {
      ended = true;
      checkDone();
    };
    const fail = (error: Error) => settle(() => reject(error));
    const closed = () => fail(new RuntimeError('FailedPrecondition', 'the reader closed the output'));
    const cut = () => {
      if (!ended) fail(new SpdyError('Closed', 'the connection ended'));
    };
    const settle = (then: () => void) => {
      from.off('data', take).off('end', end).off('error', fail).off('close', cut);
      to?.off('drain', resume).off('close', closed);
      then();
    };
    from.once('end', end).once('error', fail).once('close', cut).on('data', take);
    to?.on('drain', resume).once('close', closed);
    if (from.destroyed) cut();
    else if (to?.destroyed) closed();
  });
}

interface Status {
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

async function readStatus(error: SpdyStream): Promise<Status> {
  const chunks: Buffer[] = [];
  let length = 0;
  // destroyOnReturn: false, because a reset of a stream that has ended fails if the peer has closed the connection
  for await (const chunk of error.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer);
    length += (chunk as Buffer).length;
    if (length > maxStatusBytes) throw new RuntimeError('Internal', 'the status of the session is too long');
  }
  const text = Buffer.concat(chunks).toString('utf8');
  if (text === '') throw new SpdyError('Closed', 'the session ended without a status');
  try {
    return JSON.parse(text) as Status;
  } catch (cause) {
    throw new RuntimeError('Internal', `the status of the session is not JSON: ${JSON.stringify(text.slice(0, 1024))}`, { cause });
  }
}

function exitCode({ status, reason, message, details }: Status): number {
  if (status === 'Success') return 0;
  const code = details?.causes?.find((cause) => cause.reason === 'ExitCode')?.message;
  if (reason === 'NonZeroExitCode' && code !== undefined && /^\d+$/.test(code)) return Number(code);
  throw new RuntimeError('Internal', message ?? 'the session failed');
}

/** Throws the error; a SpdyError is thrown as a RuntimeError. @throws always */
export function toRuntimeError(error: unknown): never {
  if (!(error instanceof SpdyError)) throw error;
  if (error.code === 'Refused') throw new RuntimeError(error.status === 404 ? 'NotFound' : 'Internal', error.message, { cause: error });
  throw new RuntimeError('Unavailable', `the streaming session broke: ${error.message}`, { cause: error });
}
