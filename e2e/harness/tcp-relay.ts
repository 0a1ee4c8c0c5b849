import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** Forwards connections to a port of this machine until the line is cut. */
export class TcpRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(target: number) {
    this.#server = createServer((socket) => {
      if (this.#isCut) {
        socket.destroy();
        return;
      }
      const other = connect(target, '127.0.0.1');
      for (const [from, to] of [
        [socket, other],
        [other, socket],
      ] as const) {
        this.#sockets.add(from);
        from.once('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
        from.on('error', () => from.destroy());
        from.pipe(to);
      }
    });
  }

  static async to(target: number): Promise<TcpRelay> {
    const relay = new TcpRelay(target);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Closes all connections, and new ones at once. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  restore(): void {
    this.#isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
