import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import type { ServerList } from '@oarlock/client/http/server-list';
import type { Logger } from '@oarlock/primitives/logger';

export interface ApiServerBalancerOptions {
  readonly servers: ServerList;
  /** 0 for a free port. */
  readonly port: number;
  readonly log: Logger;
}

/**
 * Forwards TCP connections from a port of the loopback address to one of the API servers, for programs of a node that know one address only, as the
 * client load balancer of k3s. TLS is between the program and the API server. Uses the servers and their order of the clients in this process: a server
 * that one of them finds failed loses its connections, so that programs connect again, to another server.
 */
export class ApiServerBalancer {
  readonly #options: ApiServerBalancerOptions;
  readonly #server: Server;
  /** The open connections by server. */
  readonly #connections = new Map<string, Set<Socket>>();
  readonly #pending = new Set<Socket>();
  readonly #unsubscribe: () => void;
  #closed = false;

  constructor(options: ApiServerBalancerOptions) {
    this.#options = options;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => void this.#forward(socket));
    const { servers } = options;
    const unsubscribers = [
      servers.onFailure((server) => this.#close(server)),
      servers.onChange(() => {
        for (const server of this.#connections.keys()) if (!servers.servers.includes(server)) this.#close(server);
      }),
    ];
    this.#unsubscribe = () => {
      for (const unsubscribe of unsubscribers) unsubscribe();
    };
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** @throws the system error if the port cannot be used */
  async start(): Promise<void> {
    this.#server.listen(this.#options.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async stop(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    for (const server of this.#connections.keys()) this.#close(server);
    for (const socket of this.#pending) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Connects to the first server that accepts, in the order of the list. The program's connection is closed if none does. */
  async #forward(program: Socket): Promise<void> {
    const { servers, log } = this.#options;
    program.on('error', () => program.destroy());
    this.#pending.add(program);
    for (const server of servers.servers) {
      const upstream = await this.#dial(server);
      if (program.destroyed || this.#closed) {
        upstream?.destroy();
        break;
      }
      if (upstream === undefined) continue;
      this.#pending.delete(program);
      this.#join(server, program, upstream);
      return;
    }
    this.#pending.delete(program);
    if (!program.destroyed && !this.#closed)
      log.warn({ servers: servers.servers }, 'no API server accepts a connection of the local balancer');
    program.destroy();
  }

  /** Returns a connection, or undefined if the server does not accept one in time. The server then moves to the end of the list. */
  #dial(server: string): Promise<Socket | undefined> {
    const { servers } = this.#options;
    const { hostname, port } = new URL(server);
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 443), allowHalfOpen: true });
    socket.setTimeout(servers.timing.dialMs);
    return new Promise((resolve) => {
      const fail = () => {
        socket.destroy();
        servers.markFailed(server);
        resolve(undefined);
      };
      socket.once('timeout', fail);
      socket.once('error', fail);
      socket.once('connect', () => {
        socket.setTimeout(0);
        socket.off('timeout', fail);
        socket.off('error', fail);
        resolve(socket);
      });
    });
  }

  #join(server: string, program: Socket, upstream: Socket): void {
    const open = this.#connections.get(server) ?? new Set();
    this.#connections.set(server, open);
    open.add(upstream);
    for (const [from, to] of [
      [program, upstream],
      [upstream, program],
    ] as const) {
      from.setNoDelay(true);
      // a connection that breaks ends the other one: its user reads the end
      pipeline(from, to, () => undefined);
    }
    upstream.once('close', () => open.delete(upstream));
  }

  #close(server: string): void {
    for (const socket of this.#connections.get(server) ?? []) socket.destroy();
    this.#connections.delete(server);
  }
}
