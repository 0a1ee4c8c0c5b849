import { createSocket } from 'node:dgram';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import { datagramReader, frameDatagram } from './datagram-frames.ts';
import { maxTargetBytes, parseTarget, type Target } from './target.ts';

export interface DialServerOptions {
  readonly clock: Clock;
  /** The maximum number of connections. */
  readonly places: number;
  /** Returns where a target is in the network of this process; undefined if it must not be reached. */
  resolve(target: Target): Target | undefined;
}

/** Sent once the target accepted the connection. */
export const accepted = 0x06;
const dialTimeoutMs = 30_000;

/**
 * One side of the relay: accepts connections on a unix socket, reads the target that the first line of each names, connects to it from the network of this
 * process, and passes bytes in both directions. Datagrams of one flow share a connection.
 */
export class DialServer {
  readonly #server: Server;
  readonly #options: DialServerOptions;
  readonly #open = new Set<Socket>();

  constructor(options: DialServerOptions) {
    this.#options = options;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = options.places;
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(path, resolve);
    });
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    for (const socket of this.#open) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    socket.on('error', () => socket.destroy()); // the other side of the relay ended, or the target did
    const timer = this.#options.clock.after(dialTimeoutMs, () => socket.destroy());
    socket.once('close', () => timer.cancel());
    let head = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\n');
      if (end === -1 && head.length <= maxTargetBytes) return;
      socket.off('data', read);
      socket.pause();
      const named = end === -1 ? undefined : parseTarget(head.subarray(0, end).toString('latin1'));
      const target = named && this.#options.resolve(named);
      if (target === undefined) {
        socket.destroy();
        return;
      }
      const rest = head.subarray(end + 1);
      if (rest.length > 0) socket.unshift(rest);
      if (target.protocol === 'tcp') dialTcp(socket, target, () => timer.cancel());
      else {
        timer.cancel();
        dialUdp(socket, target);
      }
    };
    socket.on('data', read);
    socket.resume();
  }
}

function dialTcp(socket: Socket, { address, port }: Target, onConnect: () => void): void {
  const outgoing = connect({ host: address, port, allowHalfOpen: true, noDelay: true, keepAlive: true });
  outgoing.once('connect', () => {
    onConnect();
    socket.write(Buffer.from([accepted]));
    passBoth(socket, outgoing);
  });
  outgoing.once('error', () => socket.destroy()); // the other side reports it to its client as a reset
  socket.once('close', () => outgoing.destroy());
}

function dialUdp(socket: Socket, { address, port }: Target): void {
  const outgoing = createSocket('udp4');
  socket.once('close', () => outgoing.close());
  outgoing.on('error', () => {}); // as if the datagram was lost: the target does not listen
  outgoing.on('message', (datagram) => {
    // a client that does not read loses datagrams
    if (!socket.writableNeedDrain) socket.write(frameDatagram(datagram));
  });
  outgoing.connect(port, address, () => {
    socket.write(Buffer.from([accepted]));
    const read = datagramReader((datagram) => outgoing.send(datagram, () => {}));
    socket.on('data', read);
    socket.once('end', () => socket.destroy());
    socket.resume();
  });
}

/** Passes the bytes and the end of each stream to the other. An error of one ends both. */
export function passBoth(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on('error', () => to.destroy());
    from.once('close', () => {
      if (!from.readableEnded) to.destroy();
    });
    from.pipe(to);
  }
}
