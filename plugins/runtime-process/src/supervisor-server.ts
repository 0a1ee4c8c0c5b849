import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import type { Containers } from './containers.ts';
import { statusOf } from './pod-store.ts';
import {
  Lines,
  protocolVersion,
  Refusal,
  type CallName,
  type Calls,
  type FromSupervisor,
  type Hello,
  type Request,
  type SupervisorInfo,
  type Welcome,
} from './protocol.ts';
import type { Sandboxes } from './sandboxes.ts';
import { serveSession, type SessionServices } from './sessions.ts';
import { socketName } from './socket-path.ts';

export interface ServerOptions {
  readonly containers: Containers;
  readonly sandboxes: Sandboxes;
  readonly sessions: SessionServices;
  readonly info: SupervisorInfo;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long to stay without clients and without running containers. */
  readonly idleMs: number;
  /** The server has closed: nothing keeps the process any more. */
  ended(): void;
}
type Handlers = { readonly [K in CallName]: (args: Calls[K]['in']) => Calls[K]['out'] | Promise<Calls[K]['out']> };

/** A client that lets this much wait for it is cut off; it comes back and lists everything anew. */
const unreadBytes = 8 * 1024 * 1024;
const helloMs = 10_000;

/** The supervisor's socket: who may connect is decided by the directory it is in, which is the user's alone. */
export class SupervisorServer {
  readonly #options: ServerOptions;
  readonly #server: Server;
  readonly #handlers: Handlers;
  readonly #clients = new Set<Socket>();
  readonly #connections = new Set<Socket>();
  #idle: Timer | undefined;
  #closing = false;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#accept(socket));
    const { containers, sandboxes } = options;
    this.#handlers = {
      'sandbox.create': (args) => sandboxes.create(args),
      'sandbox.ready': ({ id, ips }) => {
        sandboxes.ready(id, ips);
        return null;
      },
      'sandbox.get': ({ id }) => sandboxes.get(id),
      'sandbox.list': () => sandboxes.list(),
      'sandbox.stop': ({ id, graceMs }) => sandboxes.stop(id, graceMs),
      'sandbox.remove': async ({ id }) => {
        await sandboxes.remove(id);
        return null;
      },
      'container.create': ({ sandboxId, config }) => {
        const sandbox = sandboxes.get(sandboxId);
        if (sandbox.state !== 'READY') throw new Refusal('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
        return containers.create(sandbox, config);
      },
      'container.start': async ({ id }) => {
        await containers.start(id);
        return null;
      },
      'container.stop': async ({ id, graceMs }) => {
        await containers.stop(id, graceMs);
        return null;
      },
      'container.remove': async ({ id }) => {
        await containers.remove(id);
        return null;
      },
      'container.get': ({ id }) => statusOf(containers.get(id)),
      'container.list': ({ sandboxId }) => containers.list(sandboxId).map(statusOf),
      'container.update': ({ id, resources }) => {
        containers.update(id, resources);
        return null;
      },
      'container.reopenLog': async ({ id }) => {
        await containers.reopenLog(id);
        return null;
      },
      'container.stats': ({ id, sandboxId }) => {
        if (id !== undefined) containers.running(id);
        return containers.stats(id !== undefined ? [id] : containers.list(sandboxId).map((container) => container.id));
      },
      shutdown: () => {
        if (containers.anyRunning) throw new Refusal('FailedPrecondition', 'containers are running');
        this.#closing = true;
        containers.leave(sandboxes.list());
        return null;
      },
    };
  }

  /** Only the holder of the directory's lock calls this, so a socket that is there is a dead one's. */
  async listen(dataDir: string, path: string): Promise<void> {
    rmSync(join(dataDir, socketName), { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(path, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    chmodSync(join(dataDir, socketName), 0o600);
    this.#watchIdle();
  }

  /** To every client. The state that it tells of is on disk. */
  emit(event: RuntimeEvent): void {
    for (const client of this.#clients) this.#send(client, { event });
    this.#watchIdle();
  }

  close(): void {
    this.#closing = true;
    this.#server.close(() => this.#options.ended());
    for (const connection of this.#connections) connection.end();
    for (const connection of this.#connections) connection.destroySoon();
  }

  #accept(socket: Socket): void {
    this.#connections.add(socket);
    socket.once('close', () => {
      this.#connections.delete(socket);
      this.#clients.delete(socket);
      this.#watchIdle();
    });
    socket.on('error', () => {}); // its close tells
    const lines = new Lines();
    const timer = this.#options.clock.after(helloMs, () => socket.destroy());
    const first = (chunk: Buffer) => {
      const end = chunk.indexOf(10);
      const [line] = this.#guard(socket, () => lines.push(end < 0 ? chunk : chunk.subarray(0, end + 1))) ?? [];
      if (line === undefined) return;
      timer.cancel();
      socket.off('data', first);
      this.#welcome(socket, line, chunk.subarray(end + 1));
    };
    socket.on('data', first);
  }

  #welcome(socket: Socket, line: string, rest: Buffer): void {
    const hello = this.#guard(socket, () => JSON.parse(line) as Hello);
    if (hello === undefined) return;
    if (this.#closing) {
      socket.end(`${JSON.stringify({ ending: true } satisfies Welcome)}\n`);
      return;
    }
    if (hello.protocol !== protocolVersion) {
      const message = `the supervisor of this directory speaks version ${protocolVersion} of the protocol, and this Oarlock version ${hello.protocol}; stop the pods with the release that started them`;
      socket.end(`${JSON.stringify({ error: { code: 'Unavailable', message } } satisfies Welcome)}\n`);
      return;
    }
    socket.write(`${JSON.stringify({ welcome: this.#options.info } satisfies Welcome)}\n`);
    if (hello.role === 'session') void serveSession(socket, hello.session, rest, this.#options.sessions);
    else this.#control(socket, rest);
  }

  #control(socket: Socket, rest: Buffer): void {
    this.#clients.add(socket);
    this.#idle?.cancel();
    const lines = new Lines();
    const push = (chunk: Buffer) => {
      for (const line of this.#guard(socket, () => lines.push(chunk)) ?? []) {
        const request = this.#guard(socket, () => JSON.parse(line) as Request);
        if (request) void this.#answer(socket, request);
      }
    };
    socket.on('data', push);
    if (rest.length > 0) push(rest);
  }

  async #answer(socket: Socket, { id, call, args }: Request): Promise<void> {
    const handler = this.#handlers[call] as ((args: unknown) => unknown) | undefined;
    let response: FromSupervisor;
    try {
      if (!handler || !Object.hasOwn(this.#handlers, call))
        throw new Refusal('Unsupported', `the supervisor knows no call ${JSON.stringify(call)}`);
      response = { id, result: (await handler(args)) ?? null };
    } catch (error) {
      if (!(error instanceof Refusal)) this.#options.log.error({ call, error: String((error as Error).stack) }, 'a call failed');
      response = { id, error: { code: error instanceof Refusal ? error.code : 'Internal', message: (error as Error).message } };
    }
    this.#send(socket, response);
    if (call === 'shutdown' && this.#closing) this.close();
  }

  #send(socket: Socket, message: FromSupervisor): void {
    if (socket.destroyed) return;
    if (socket.writableLength > unreadBytes) {
      this.#options.log.warn({}, 'a client does not read and is cut off');
      socket.destroy();
      return;
    }
    socket.write(`${JSON.stringify(message)}\n`);
  }

  /** Whoever sends what is no message is cut off. */
  #guard<T>(socket: Socket, parse: () => T): T | undefined {
    try {
      return parse();
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, 'a connection that does not keep to the protocol is cut off');
      socket.destroy();
      return undefined;
    }
  }

  #watchIdle(): void {
    this.#idle?.cancel();
    if (this.#closing || this.#clients.size > 0 || this.#options.containers.anyRunning) return;
    this.#idle = this.#options.clock.after(this.#options.idleMs, () => {
      if (this.#clients.size === 0 && !this.#options.containers.anyRunning) this.close();
    });
  }
}
