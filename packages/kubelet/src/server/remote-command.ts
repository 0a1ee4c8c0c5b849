import { PassThrough, Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Streams } from '@oarlock/spi/runtime';
import { LinkedSignal } from '../linked-signal.ts';

/** Subprotocols of remote commands over WebSocket, best first (KEP-4006). v5 adds the half-close of stdin. */
export const remoteCommandProtocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'] as const;

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const maxResize = 1024;

export interface RemoteCommandOptions {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Sizes of a terminal as they come; only the newest is kept for a slow reader. */
class Resizes implements AsyncIterable<Size> {
  #newest: Size | undefined;
  #wake: (() => void) | undefined;
  #over = false;

  push(size: Size): void {
    this.#newest = size;
    this.#wake?.();
  }
  end(): void {
    this.#over = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Size> {
    while (!this.#over) {
      if (this.#newest === undefined)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      this.#wake = undefined;
      const size = this.#newest;
      this.#newest = undefined;
      if (size !== undefined) yield size;
    }
  }
}

/** What comes on the error channel in the end: a Status. */
function outcome(result: { readonly exitCode: number } | { readonly error: unknown }): string {
  if ('error' in result) {
    const message = result.error instanceof Error ? result.error.message : String(result.error);
    return JSON.stringify({
      metadata: {},
      status: 'Failure',
      message,
      reason: 'InternalError',
      details: { causes: [{ message }] },
      code: 500,
    });
  }
  const { exitCode } = result;
  if (exitCode === 0) return JSON.stringify({ metadata: {}, status: 'Success' });
  return JSON.stringify({
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: exit status ${exitCode}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  });
}

function frame(channel: number, data: Buffer | string): Buffer {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data;
  const whole = Buffer.allocUnsafe(bytes.length + 1);
  whole[0] = channel;
  bytes.copy(whole, 1);
  return whole;
}

function outlet(socket: WebSocket, channel: number): Writable {
  return new Writable({
    highWaterMark: 64 * 1024,
    write(chunk: Buffer, _encoding, done) {
      socket.send(frame(channel, chunk), (error) => done(error ?? null));
    },
  });
}

/**
 * Joins a command's streams with a WebSocket: each frame begins with the number of its channel. Resolves when the command has ended, its
 * outcome was sent, and the connection closes. The signal aborts when the other side goes away.
 */
export async function serveRemoteCommand(
  socket: WebSocket,
  options: RemoteCommandOptions,
  stopped: AbortSignal,
  run: (streams: Streams, signal: AbortSignal) => Promise<number>,
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  const leave = () => gone.abort(new Error('the client went away'));
  const stdin = options.stdin ? new PassThrough({ highWaterMark: 256 * 1024 }) : undefined;
  const resizes = options.tty ? new Resizes() : undefined;
  socket.on('close', leave);
  socket.on('error', leave);
  stdin?.on('error', () => undefined); // whoever reads it has been told
  stdin?.on('drain', () => socket.resume());
  socket.on('message', (data: Buffer, binary: boolean) => {
    if (!binary || data.length === 0) return;
    const body = data.subarray(1);
    switch (data[0]) {
      case channels.stdin:
        if (stdin && !stdin.writableEnded && body.length > 0 && !stdin.write(body)) socket.pause();
        return;
      case channels.close:
        if (socket.protocol === remoteCommandProtocols[0] && body[0] === channels.stdin) stdin?.end();
        return;
      case channels.resize:
        resize(resizes, body);
    }
  });
  // an empty frame tells the client that the streams are open
  const first = options.stdout ? channels.stdout : options.stderr ? channels.stderr : channels.error;
  socket.send(frame(first, ''));
  const streams: Streams = {
    tty: options.tty,
    ...(stdin && { stdin }),
    ...(options.stdout && { stdout: outlet(socket, channels.stdout) }),
    ...(options.stderr && !options.tty && { stderr: outlet(socket, channels.stderr) }),
    ...(resizes && { resize: resizes }),
  };
  const result = await run(streams, gone.signal).then(
    (exitCode) => ({ exitCode }),
    (error: unknown) => ({ error }),
  );
  gone.release();
  resizes?.end();
  stdin?.destroy();
  if (socket.readyState === socket.OPEN)
    await new Promise<void>((resolve) => {
      socket.send(frame(channels.error, outcome(result)), () => resolve());
    });
  socket.close(1000);
}

function resize(resizes: Resizes | undefined, body: Buffer): void {
  if (!resizes || body.length > maxResize) return;
  try {
    const { Width: width, Height: height } = JSON.parse(body.toString('utf8')) as { readonly Width?: unknown; readonly Height?: unknown };
    if (typeof width === 'number' && typeof height === 'number' && width > 0 && height > 0 && width < 65_536 && height < 65_536)
      resizes.push({ width, height });
  } catch {
    // a size that cannot be read changes nothing
  }
}
