import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export interface Target {
  readonly host: string;
  readonly port: number;
}

/** A TCP proxy in front of several targets that can cut connections and hold data back, as a network fault does. */
export class TcpGate {
  readonly #targets: readonly Target[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #held: { readonly released: Promise<void>; readonly release: () => void } | undefined;
  #next = 0;

  private constructor(targets: readonly Target[]) {
    this.#targets = targets;
    this.#server = createServer((socket) => void this.#pass(socket));
  }

  /** Each connection uses the next target that accepts it. */
  static async to(...targets: readonly Target[]): Promise<TcpGate> {
    const gate = new TcpGate(targets);
    gate.#server.listen(0, '127.0.0.1');
    await once(gate.#server, 'listening');
    return gate;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections; new ones are accepted. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Holds all data back until `release`, without closing connections. */
  hold(): void {
    if (this.#held) return;
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    this.#held = { released, release };
    for (const socket of this.#sockets) socket.pause();
  }

  release(): void {
    this.#held?.release();
    this.#held = undefined;
    for (const socket of this.#sockets) socket.resume();
  }

  async close(): Promise<void> {
    this.release();
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  async #pass(socket: Socket): Promise<void> {
    this.#keep(socket);
    socket.pause();
    const far = await this.#open();
    if (far === undefined || socket.destroyed) {
      far?.destroy();
      socket.destroy();
      return;
    }
    this.#keep(far);
    for (const [from, to] of [
      [socket, far],
      [far, socket],
    ] as const) {
      from.on('data', (chunk) => {
        if (!to.write(chunk)) from.pause();
      });
      to.on('drain', () => {
        if (!this.#held) from.resume();
      });
      from.once('end', () => to.end()).once('close', () => to.destroy());
    }
    await this.#held?.released;
    socket.resume();
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    // the owner of the connection sees the close
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }

  async #open(): Promise<Socket | undefined> {
    for (let tried = 0; tried < this.#targets.length; tried++) {
      const target = this.#targets[this.#next++ % this.#targets.length];
      if (!target) return undefined;
      const far = connect(target);
      const answered = await Promise.race([once(far, 'connect').then(() => true), once(far, 'error').then(() => false)]).catch(() => false);
      if (answered) return far;
      far.destroy();
    }
    return undefined;
  }
}
