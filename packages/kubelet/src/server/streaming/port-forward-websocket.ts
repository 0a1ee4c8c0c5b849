import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import { portForwardProtocol, portForwardErrorMessage, servePortForward, type ForwardTarget } from './port-forward.ts';
import type { SessionOptions } from './internal/session-options.ts';
import { WebSocketDuplex } from './internal/websocket-duplex.ts';
import { sendMessage } from './internal/websocket-writable.ts';

/** The subprotocol that tunnels SPDY in WebSocket messages (KEP-4006), which kubectl uses since 1.31. */
const tunnelProtocol = `SPDY/3.1+${portForwardProtocol}`;
/** The subprotocol with two channels per port, which clients in other languages use. Each port carries one connection. */
const channelProtocol = 'v4.channel.k8s.io';
export const webSocketForwardProtocols = [tunnelProtocol, channelProtocol] as const;

/** The ports of a pod that a client forwards. */
export interface ForwardedPorts {
  /** the ports in the query, which only the channel protocol uses */
  readonly ports: readonly number[];
  readonly target: ForwardTarget;
  readonly session: SessionOptions;
}

/** Serves port-forwarding over a WebSocket.  */
export async function serveWebSocketForward(
  { socket, protocol }: { readonly socket: WebSocket; readonly protocol: string },
  { ports, target, session }: ForwardedPorts,
): Promise<void> {
  if (protocol === tunnelProtocol) await servePortForward({ socket: new WebSocketDuplex(socket), head: Buffer.alloc(0) }, target, session);
  else await serveChannels(socket, { ports, target }, session);
}

function message(channel: number, bytes: Buffer): Buffer {
  const whole = Buffer.allocUnsafe(bytes.length + 1);
  whole[0] = channel;
  bytes.copy(whole, 1);
  return whole;
}

async function serveChannels(
  socket: WebSocket,
  { ports, target }: { readonly ports: readonly number[]; readonly target: ForwardTarget },
  { stopped, active }: SessionOptions,
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  setMaxListeners(0, gone.signal); // each port adds a listener
  const leave = () => gone.abort(new Error('the client disconnected'));
  socket.on('close', leave);
  socket.on('error', leave);
  const inputs = new Map<number, (bytes: Buffer) => void>();
  socket.on('message', (data: Buffer, binary: boolean) => {
    active();
    if (binary && data.length > 1) inputs.get(data[0] as number)?.(data.subarray(1));
  });
  const forwards = ports.map(async (port, index) => {
    const [dataChannel, errorChannel] = [2 * index, 2 * index + 1];
    // each channel starts with its port number
    const named = Buffer.alloc(2);
    named.writeUInt16LE(port);
    for (const channel of [dataChannel, errorChannel]) socket.send(message(channel, named));
    const buffered: Buffer[] = [];
    inputs.set(dataChannel, (bytes) => {
      buffered.push(bytes);
      socket.pause(); // until the connection to the pod is open
    });
    try {
      const connection = await target.connect(port, gone.signal);
      inputs.set(dataChannel, (bytes) => {
        if (!connection.destroyed && !connection.write(bytes)) socket.pause();
      });
      connection.on('drain', () => socket.resume());
      for (const bytes of buffered) connection.write(bytes);
      socket.resume();
      await sendPodData(connection, { socket, channel: dataChannel, signal: gone.signal, active });
    } catch (error) {
      socket.resume();
      if (socket.readyState === socket.OPEN && error instanceof Error)
        socket.send(message(errorChannel, Buffer.from(portForwardErrorMessage(target, port, error))));
    } finally {
      inputs.delete(dataChannel);
    }
  });
  await Promise.all(forwards);
  gone.release();
  socket.close(1000);
}

/** Sends the pod's data to the client until the data ends or the client disconnects. @throws the error of the connection to the pod */
function sendPodData(
  connection: Duplex,
  {
    socket,
    channel,
    signal,
    active,
  }: { readonly socket: WebSocket; readonly channel: number; readonly signal: AbortSignal; readonly active: () => void },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => connection.destroy();
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    connection.on('data', (bytes: Buffer) => {
      active();
      let flushed = false;
      sendMessage(socket, message(channel, bytes), () => {
        flushed = true;
        connection.resume();
      });
      if (!flushed) connection.pause();
    });
    connection.once('end', () => connection.destroy()); // the protocol has no half-close
    connection.once('error', reject);
    connection.once('close', () => {
      signal.removeEventListener('abort', stop);
      socket.resume();
      resolve();
    });
  });
}
