import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock } from '@oarlock/kernel/clock';
import { LinkedSignal } from '../linked-signal.ts';
import { portForwardProtocol, refusal, servePortForward, type ForwardTarget } from './port-forward.ts';
import { WebSocketBytes } from './web-socket-bytes.ts';
import { sendMessage } from './web-socket-outlet.ts';

/** SPDY in the messages of a WebSocket (KEP-4006), as kubectl does it since 1.31. */
const tunnelProtocol = `SPDY/3.1+${portForwardProtocol}`;
/** Two channels for each port, as the clients of other languages do it. A port serves one connection. */
const channelProtocol = 'v4.channel.k8s.io';
export const webSocketForwardProtocols = [tunnelProtocol, channelProtocol] as const;

interface Sitting {
  readonly stopped: AbortSignal;
  readonly clock: Clock;
}

/** @param ports those of the query; only channels need them */
export async function serveWebSocketForward(
  { socket, protocol }: { readonly socket: WebSocket; readonly protocol: string },
  ports: readonly number[],
  target: ForwardTarget,
  sitting: Sitting,
): Promise<void> {
  if (protocol === tunnelProtocol) await servePortForward({ socket: new WebSocketBytes(socket), head: Buffer.alloc(0) }, target, sitting);
  else await serveChannels(socket, ports, target, sitting);
}

function message(channel: number, bytes: Buffer): Buffer {
  const whole = Buffer.allocUnsafe(bytes.length + 1);
  whole[0] = channel;
  bytes.copy(whole, 1);
  return whole;
}

async function serveChannels(socket: WebSocket, ports: readonly number[], target: ForwardTarget, { stopped }: Sitting): Promise<void> {
  const gone = new LinkedSignal(stopped);
  setMaxListeners(0, gone.signal); // each port listens
  const leave = () => gone.abort(new Error('the client went away'));
  socket.on('close', leave);
  socket.on('error', leave);
  const inputs = new Map<number, (bytes: Buffer) => void>();
  socket.on('message', (data: Buffer, binary: boolean) => {
    if (binary && data.length > 1) inputs.get(data[0] as number)?.(data.subarray(1));
  });
  const forwards = ports.map(async (port, index) => {
    const [dataChannel, errorChannel] = [2 * index, 2 * index + 1];
    // each channel begins with the port that it is for
    const named = Buffer.alloc(2);
    named.writeUInt16LE(port);
    for (const channel of [dataChannel, errorChannel]) socket.send(message(channel, named));
    const early: Buffer[] = [];
    inputs.set(dataChannel, (bytes) => {
      early.push(bytes);
      socket.pause(); // until there is somebody to give it to
    });
    try {
      const far = await target.connect(port, gone.signal);
      inputs.set(dataChannel, (bytes) => {
        if (!far.destroyed && !far.write(bytes)) socket.pause();
      });
      far.on('drain', () => socket.resume());
      for (const bytes of early) far.write(bytes);
      socket.resume();
      await carry(far, socket, dataChannel, gone.signal);
    } catch (error) {
      socket.resume();
      if (socket.readyState === socket.OPEN && error instanceof Error)
        socket.send(message(errorChannel, Buffer.from(refusal(target, port, error))));
    } finally {
      inputs.delete(dataChannel);
    }
  });
  await Promise.all(forwards);
  gone.release();
  socket.close(1000);
}

/** What the pod sends, until it ends or the client goes. @throws what the connection to the pod fails with */
function carry(far: Duplex, socket: WebSocket, channel: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => far.destroy();
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    far.on('data', (bytes: Buffer) => {
      let taken = false;
      sendMessage(socket, message(channel, bytes), () => {
        taken = true;
        far.resume();
      });
      if (!taken) far.pause();
    });
    far.once('end', () => far.destroy()); // there is no way to tell half an end
    far.once('error', reject);
    far.once('close', () => {
      signal.removeEventListener('abort', stop);
      socket.resume();
      resolve();
    });
  });
}
