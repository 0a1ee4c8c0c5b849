import { PassThrough } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock } from '@oarlock/kernel/clock';
import type { Streams } from '@oarlock/spi/runtime';
import { LinkedSignal } from '../linked-signal.ts';
import { outcome, problem, Resizes, resultOf, type RemoteCommandOptions, type RunCommand } from './remote-command.ts';
import { WebSocketOutlet } from './web-socket-outlet.ts';

/**
 * Subprotocols of remote commands over WebSocket, best first (KEP-4006). v5 adds the half-close of stdin, v4 the outcome as a Status; a client
 * that asks for none gets the oldest.
 */
export const webSocketCommandProtocols = [
  'v5.channel.k8s.io',
  'v4.channel.k8s.io',
  'v4.base64.channel.k8s.io',
  'channel.k8s.io',
  'base64.channel.k8s.io',
  '',
] as const;

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const longestSilenceMs = 2_000;
const zero = 0x30;

/** What a protocol can say, and in which form: bytes, or text whose first letter is the channel's number. */
interface Dialect {
  readonly base64: boolean;
  readonly halfClose: boolean;
  readonly statuses: boolean;
}
const dialectOf = (protocol: string): Dialect => ({
  base64: protocol.includes('base64'),
  halfClose: protocol.startsWith('v5.'),
  statuses: /^v\d/.test(protocol),
});

function frame(channel: number, chunks: readonly Buffer[], { base64 }: Dialect): Buffer | string {
  return base64 ? `${channel}${Buffer.concat(chunks).toString('base64')}` : Buffer.concat([Buffer.of(channel), ...chunks]);
}

/**
 * When the client reads. kubectl 1.29 and 1.30 begin to read a little before they have made the streams, and drop what comes for a stream
 * that is not there yet; so nothing is sent before the client has answered a ping or sent something itself, or has been silent for long.
 */
function reading(socket: WebSocket, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(longestSilenceMs, resolve);
    const go = () => {
      timer.cancel();
      resolve();
    };
    socket.once('pong', go);
    socket.once('message', go);
    socket.once('close', go);
    socket.ping();
  });
}

/**
 * Joins a command's streams with a WebSocket: each frame begins with the number of its channel. Resolves when the command has ended, its
 * outcome was sent, and the connection closes. The signal aborts when the other side goes away.
 */
export async function serveWebSocketCommand(
  { socket, protocol }: { readonly socket: WebSocket; readonly protocol: string },
  options: RemoteCommandOptions,
  { stopped, clock }: { readonly stopped: AbortSignal; readonly clock: Clock },
  run: RunCommand,
): Promise<void> {
  const dialect = dialectOf(protocol);
  const gone = new LinkedSignal(stopped);
  const leave = () => gone.abort(new Error('the client went away'));
  const stdin = options.stdin ? new PassThrough({ highWaterMark: 256 * 1024 }) : undefined;
  const resizes = options.tty ? new Resizes() : undefined;
  socket.on('close', leave);
  socket.on('error', leave);
  stdin?.on('error', () => undefined); // whoever reads it has been told
  stdin?.on('drain', () => socket.resume());
  socket.on('message', (data: Buffer, binary: boolean) => {
    if (binary === dialect.base64 || data.length === 0) return;
    const body = dialect.base64 ? Buffer.from(data.toString('latin1', 1), 'base64') : data.subarray(1);
    switch (dialect.base64 ? (data[0] ?? 0) - zero : data[0]) {
      case channels.stdin:
        if (stdin && !stdin.writableEnded && body.length > 0 && !stdin.write(body)) socket.pause();
        return;
      case channels.close:
        if (dialect.halfClose && body[0] === channels.stdin) stdin?.end();
        return;
      case channels.resize:
        resizes?.read(body.toString('utf8'));
    }
  });
  // an empty frame tells the client that the streams are open
  const first = options.stdout ? channels.stdout : options.stderr ? channels.stderr : channels.error;
  const ready = reading(socket, clock).then(() => {
    if (socket.readyState === socket.OPEN) socket.send(frame(first, [], dialect));
  });
  const outlet = (channel: number) => new WebSocketOutlet(socket, ready, (chunks) => frame(channel, chunks, dialect));
  const stdout = options.stdout ? outlet(channels.stdout) : undefined;
  const stderr = options.stderr && !options.tty ? outlet(channels.stderr) : undefined;
  const streams: Streams = {
    tty: options.tty,
    ...(stdin && { stdin }),
    ...(stdout && { stdout }),
    ...(stderr && { stderr }),
    ...(resizes && { resize: resizes }),
  };
  await resizes?.begun(clock, gone.signal);
  const result = await resultOf(run(streams, gone.signal));
  await ready;
  gone.release();
  resizes?.end();
  stdin?.destroy();
  stdout?.flush();
  stderr?.flush();
  const said = dialect.statuses ? outcome(result) : problem(result);
  if (socket.readyState === socket.OPEN && said !== undefined)
    await new Promise<void>((resolve) => {
      socket.send(frame(channels.error, [Buffer.from(said, 'utf8')], dialect), () => resolve());
    });
  socket.close(1000);
}
