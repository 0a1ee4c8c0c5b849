import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Balancer, Frontend } from './balancer.ts';

const connectTimeoutMs = 5_000;
const attempts = 3; // number of endpoints to try before the connection is closed

/** The port to listen on, and the endpoints that connections are balanced over. */
export interface ListenerTarget {
  readonly port: number;
  readonly balancer: Balancer;
  readonly frontend: Frontend;
}

/** Forwards the TCP connections of one address and port. A connection survives changes of endpoints other than its own. */
export class TcpListener {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(balancer: Balancer, frontend: Frontend) {
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => this.#serve(client, balancer, frontend));
  }

  /** Starts to listen. @throws the error of listen(2) if the address is not local, in use, or requires a privilege */
  static async open(ip: string, { port, balancer, frontend }: ListenerTarget): Promise<TcpListener> {
    const listener = new TcpListener(balancer, frontend);
    await new Promise<void>((resolve, reject) => {
      listener.#server.once('error', reject);
      listener.#server.listen({ host: ip, port }, () => {
        listener.#server.off('error', reject);
        resolve();
      });
    });
    listener.#server.unref();
    return listener;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #serve(client: Socket, balancer: Balancer, frontend: Frontend): void {
    this.#hold(client);
    // an error of either side closes both
    client.on('error', () => client.destroy());
    this.#dial(client, { balancer, frontend, left: attempts });
  }

  #dial(
    client: Socket,
    { balancer, frontend, left }: { readonly balancer: Balancer; readonly frontend: Frontend; readonly left: number },
  ): void {
    const endpoint = left > 0 && !client.destroyed ? balancer.pick(client.remoteAddress ?? '', frontend) : undefined;
    if (endpoint === undefined) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ host: endpoint.ip, port: endpoint.port, allowHalfOpen: true, timeout: connectTimeoutMs });
    this.#hold(server);
    const failed = () => {
      server.destroy();
      this.#dial(client, { balancer, frontend, left: left - 1 });
    };
    server.once('error', failed);
    server.once('timeout', failed);
    server.once('connect', () => {
      server.off('error', failed);
      server.off('timeout', failed);
      server.setTimeout(0);
      server.setNoDelay(true);
      client.setNoDelay(true);
      server.on('error', () => {
        client.resetAndDestroy();
      });
      client.on('close', () => server.destroy());
      server.on('close', () => client.destroy());
      client.pipe(server);
      server.pipe(client);
    });
  }

  #hold(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }
}
