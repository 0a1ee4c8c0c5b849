import type { Socket } from 'node:net';
import { Duplex, type Writable } from 'node:stream';
import { RuntimeError, type Streams } from '@oarlock/spi/runtime';
import { encodeFrame, encodeFrames, FrameReader, type Frame } from '../protocol/session-frames.ts';
import type { ErrorResponse } from '../protocol/supervisor-protocol.ts';

/** The connection of a session after the supervisor's welcome message. `rest` contains the bytes that arrived together with that message. */
export interface SessionConnection {
  readonly socket: Socket;
  readonly rest: Buffer;
}
type End = { readonly exitCode?: number } & Partial<ErrorResponse>;

/**
 * Copies streams over a session's connection. Resolves when the supervisor has reported the end of the session and all output has
 * been written. An abort kills the process of an exec and detaches from an attach, then rejects with the signal's reason.
 * @throws RuntimeError with the supervisor's error; `Unavailable` if the connection is lost
 */
export async function runSession(
  { socket, rest }: SessionConnection,
  streams: Streams,
  { kills, signal }: { readonly kills: boolean; readonly signal?: AbortSignal | undefined },
): Promise<End> {
  const stop = new AbortController();
  let writing: Promise<void> = Promise.resolve();
  const flushed = new Map<Writable, Promise<void>>();
  const abort = () => {
    if (kills) socket.write(encodeFrame('kill'));
    else socket.destroy();
    socket.resume(); // the consumer of the output may never accept more
  };
  try {
    const ended = new Promise<End>((resolve, reject) => {
      let end: End | undefined;
      const handle = ({ kind, payload }: Frame) => {
        if (signal?.aborted) return;
        if (kind === 'end') end = JSON.parse(payload.toString()) as End;
        else if (kind === 'stdout' || kind === 'stderr') {
          const target = streams[kind];
          if (target && payload.length > 0) writing = writing.then(() => write(target, payload, flushed));
        }
      };
      readFrames(socket, { rest, handle, writing: () => (signal?.aborted ? undefined : writing) });
      socket.once('close', () => {
        if (signal?.aborted) reject(signal.reason as Error);
        else if (end) resolve(end);
        else reject(new RuntimeError('Unavailable', 'the connection to the supervisor of the containers was lost'));
      });
      socket.on('error', () => {}); // handled by 'close'
    });
    sendStdin(socket, streams, stop.signal);
    void sendSizes(socket, streams, stop.signal);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    const end = await ended;
    await writing;
    await Promise.all(flushed.values());
    if (end.error) throw new RuntimeError(end.error.code, end.error.message);
    return end;
  } finally {
    stop.abort();
    signal?.removeEventListener('abort', abort);
    socket.destroy();
  }
}

/** Calls `handle` for each frame. Pauses the socket until the consumer has accepted the output of `writing`. */
function readFrames(
  socket: Socket,
  {
    rest,
    handle,
    writing,
  }: { readonly rest: Buffer; readonly handle: (frame: Frame) => void; readonly writing: () => Promise<void> | undefined },
): void {
  const reader = new FrameReader();
  const push = (chunk: Buffer) => {
    try {
      for (const frame of reader.push(chunk)) handle(frame);
    } catch (error) {
      socket.destroy(error as Error);
      return;
    }
    const pending = writing();
    if (!pending) return;
    socket.pause();
    void pending.then(() => socket.resume());
  };
  if (rest.length > 0) push(rest);
  socket.on('data', push);
  if (rest.length === 0) socket.resume();
}

/** Writes to a consumer. Resolves when it can accept more; `flushed` receives the promise of this write. A destroyed consumer accepts everything. */
function write(target: Writable, bytes: Buffer, flushed: Map<Writable, Promise<void>>): Promise<void> {
  if (target.destroyed) return Promise.resolve();
  let more = true;
  flushed.set(
    target,
    new Promise((resolve) => {
      more = target.write(bytes, () => resolve());
    }),
  );
  if (more) return Promise.resolve();
  return new Promise((resolve) => {
    const resume = () => {
      target.off('drain', resume).off('close', resume).off('error', resume);
      resolve();
    };
    target.once('drain', resume).once('close', resume).once('error', resume);
  });
}

function sendStdin(socket: Socket, { stdin }: Streams, signal: AbortSignal): void {
  if (!stdin) return;
  const data = (chunk: Buffer | string) => {
    if (socket.destroyed) return;
    let more = true;
    for (const frame of encodeFrames('stdin', typeof chunk === 'string' ? Buffer.from(chunk) : chunk)) more = socket.write(frame);
    if (more) return;
    stdin.pause();
    socket.once('drain', () => {
      if (!signal.aborted) stdin.resume();
    });
  };
  const end = () => {
    if (!socket.destroyed) socket.write(encodeFrame('stdinEnd'));
  };
  stdin.on('data', data).once('end', end).once('error', end);
  if (stdin.readableEnded || stdin.destroyed) end();
  signal.addEventListener(
    'abort',
    () => {
      stdin.off('data', data).off('end', end).off('error', end).pause();
    },
    { once: true },
  );
}

async function sendSizes(socket: Socket, { resize }: Streams, signal: AbortSignal): Promise<void> {
  if (!resize) return;
  const sizes = resize[Symbol.asyncIterator]();
  const stopped = new Promise<{ readonly done: true }>((resolve) => {
    signal.addEventListener('abort', () => resolve({ done: true }), { once: true });
  });
  try {
    for (;;) {
      const next = await Promise.race([sizes.next(), stopped]);
      if (next.done) return;
      if (!socket.destroyed) socket.write(encodeFrame('resize', JSON.stringify(next.value)));
    }
  } catch {
    // the source of sizes failed; the session continues
  } finally {
    void sizes.return?.();
  }
}

/** Returns a forwarded connection as a stream. Resolves when the remote end is connected. @throws RuntimeError `Unavailable` if nothing listens on the port */
export function forwardedStream({ socket, rest }: SessionConnection): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const reader = new FrameReader();
    let duplex: Duplex | undefined;
    const handle = ({ kind, payload }: Frame) => {
      if (kind === 'end') {
        const { error } = JSON.parse(payload.toString()) as End;
        if (error) reject(new RuntimeError(error.code, error.message));
        duplex?.push(null);
      } else if (kind === 'stdout') {
        if (!duplex) {
          duplex = streamOver(socket);
          resolve(duplex);
        }
        if (payload.length > 0 && !duplex.push(payload)) socket.pause();
      }
    };
    const push = (chunk: Buffer) => {
      try {
        for (const frame of reader.push(chunk)) handle(frame);
      } catch (error) {
        socket.destroy(error as Error);
      }
    };
    socket.once('close', () => {
      reject(new RuntimeError('Unavailable', 'the connection to the supervisor of the containers was lost'));
      duplex?.destroy();
    });
    socket.on('error', () => {}); // handled by 'close'
    if (rest.length > 0) push(rest);
    socket.on('data', push).resume();
  });
}

function streamOver(socket: Socket): Duplex {
  return new Duplex({
    allowHalfOpen: true,
    read() {
      socket.resume();
    },
    write(chunk: Buffer, _encoding, done) {
      let more = true;
      for (const frame of encodeFrames('stdin', chunk)) more = socket.write(frame);
      if (more) done();
      else socket.once('drain', () => done());
    },
    final(done) {
      socket.write(encodeFrame('stdinEnd'), () => done());
    },
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
}
