import { PassThrough } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock } from '@oarlock/primitives/clock';
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
import { WebSocketWritable } from './internal/websocket-writable.ts';

/**
 * The subprotocols of remote commands over WebSocket, in order of preference (KEP-4006). v5 added the half-close of stdin, v4 the result as a
 * Status. A client that requests no subprotocol gets the oldest one.
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
const readingTimeoutMs = 2_000;
const zero = 0x30;

/** The features of a subprotocol: base64 text frames, half-close of stdin, and the result as a Status. */
interface ProtocolFeatures {
  readonly base64: boolean;
  readonly halfClose: boolean;
  readonly statuses: boolean;
}
const featuresOf = (protocol: string): ProtocolFeatures => ({
  base64: protocol.includes('base64'),
  halfClose: protocol.startsWith('v5.'),
  statuses: /^v\d/.test(protocol),
});

function frame(channel: number, chunks: readonly Buffer[], { base64 }: ProtocolFeatures): Buffer | string {
  return base64 ? `${channel}${Buffer.concat(chunks).toString('base64')}` : Buffer.concat([Buffer.of(channel), ...chunks]);
}

/**
 * Resolves when the client reads the WebSocket. kubectl 1.29 and 1.30 start to read before they have created the streams, and drop the data of
 * missing streams. The server therefore waits until the client answers a ping or sends data, or until a timeout.
 */
function waitUntilReading(socket: WebSocket, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(readingTimeoutMs, resolve);
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
 * Connects a command with a WebSocket, in which each frame starts with a channel number. Resolves when the command has ended, its result was
 * sent, and the connection closes. The command's signal aborts when the client disconnects.
 */
export async function serveWebSocketCommand(
  { socket, protocol }: { readonly socket: WebSocket; readonly protocol: string },
  options: RemoteCommandOptions,
  { stopped, clock, active }: SessionOptions,
  run: RunCommand,
): Promise<void> {
  const features = featuresOf(protocol);
  const gone = new LinkedSignal(stopped);
  const leave = () => gone.abort(new Error('the client disconnected'));
  const stdin = options.stdin ? new PassThrough({ highWaterMark: 256 * 1024 }) : undefined;
  const resizes = options.tty ? new TerminalSizeQueue() : undefined;
  socket.on('close', leave);
  socket.on('error', leave);
  stdin?.on('error', () => undefined); // the reader of stdin handles the error
  stdin?.on('drain', () => socket.resume());
  socket.on('message', (data: Buffer, binary: boolean) => {
    active();
    if (binary === features.base64 || data.length === 0) return;
    const body = features.base64 ? Buffer.from(data.toString('latin1', 1), 'base64') : data.subarray(1);
    switch (features.base64 ? (data[0] ?? 0) - zero : data[0]) {
      case channels.stdin:
        if (stdin && !stdin.writableEnded && body.length > 0 && !stdin.write(body)) socket.pause();
        return;
      case channels.close:
        if (features.halfClose && body[0] === channels.stdin) stdin?.end();
        return;
      case channels.resize:
        resizes?.read(body.toString('utf8'));
    }
  });
  // an empty frame reports that the streams are open
  const first = options.stdout ? channels.stdout : options.stderr ? channels.stderr : channels.error;
  const ready = waitUntilReading(socket, clock).then(() => {
    if (socket.readyState === socket.OPEN) socket.send(frame(first, [], features));
  });
  const channelWritable = (channel: number) =>
    new WebSocketWritable(socket, ready, (chunks) => {
      active();
      return frame(channel, chunks, features);
    });
  const stdout = options.stdout ? channelWritable(channels.stdout) : undefined;
  const stderr = options.stderr && !options.tty ? channelWritable(channels.stderr) : undefined;
  const streams = usedStreams(options.tty, { stdin, stdout, stderr, resize: resizes });
  await resizes?.waitForFirstSize(clock, gone.signal);
  const result = await commandResult(run(streams, gone.signal));
  await ready;
  gone.release();
  resizes?.end();
  stdin?.destroy();
  stdout?.flush();
  stderr?.flush();
  const resultMessage = features.statuses ? commandStatus(result) : plainErrorMessage(result);
  if (socket.readyState === socket.OPEN && resultMessage !== undefined)
    await new Promise<void>((resolve) => {
      socket.send(frame(channels.error, [Buffer.from(resultMessage, 'utf8')], features), () => resolve());
    });
  socket.close(1000);
}
