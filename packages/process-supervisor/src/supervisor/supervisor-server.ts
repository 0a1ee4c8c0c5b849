import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import type { Containers } from '../containers/containers.ts';
import { statusOf } from '../containers/pod-store.ts';
import {
  Lines,
  protocolVersion,
  SupervisorError,
  type CallName,
  type Calls,
  type FromSupervisor,
  type Hello,
  type Request,
  type SupervisorInfo,
  type Welcome,
  socketName,
} from '../protocol/supervisor-protocol.ts';
import type { Sandboxes } from './sandboxes.ts';
import { serveSession, type SessionServices } from './server-sessions.ts';

export interface ServerOptions {
  readonly containers: Containers;
  readonly sandboxes: Sandboxes;
  readonly sessions: SessionServices;
  readonly info: SupervisorInfo;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long the supervisor runs without clients and running containers before it ends. */
  readonly idleMs: number;
  /** Called when the server has closed. */
  onClose(): void;
}
type Handlers = { readonly [K in CallName]: (args: Calls[K]['in']) => Calls[K]['out'] | Promise<Calls[K]['out']> };

/** A client with more unsent data is disconnected; it reconnects and lists everything again. */
const maxUnsentBytes = 8 * 1024 * 1024;
const helloTimeoutMs = 10_000;

/** Serves the supervisor's socket. The directory's permissions restrict access to its user. */
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
        sandboxes.markReady(id, ips);
        return null;
      },
      'sandbox.get': ({ id }) => sandboxes.get(id),
      'sandbox.list': () => sandboxes.list(),
      'sandbox.stop': ({ id, graceMs }) => sandboxes.stop(id, graceMs),
      'sandbox.remove': async ({ id }) => {
        await sandboxes.remove(id);
        return null;
      },
      'container.create': ({ sandboxId, ...container }) => {
        const sandbox = sandboxes.get(sandboxId);
        if (sandbox.state !== 'READY') throw new SupervisorError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
        return containers.create(sandbox, container);
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
        if (containers.anyRunning) throw new SupervisorError('FailedPrecondition', 'containers are running');
        this.#closing = true;
        containers.removeCgroupParents(sandboxes.list());
        return null;
      },
    };
  }

  /** Starts to listen. Only the holder of the directory's lock calls this method, so an existing socket belongs to a dead process. */
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

  /** Sends an event to every client. The state that the event reports is already on disk. */
  emit(event: RuntimeEvent): void {
    for (const client of this.#clients) this.#send(client, { event });
    this.#watchIdle();
  }

  close(): void {
    this.#closing = true;
    this.#server.close(() => this.#options.onClose());
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
    socket.on('error', () => {}); // handled by 'close'
    const lines = new Lines();
    const timer = this.#options.clock.after(helloTimeoutMs, () => socket.destroy());
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
      const message = `the supervisor of this directory uses protocol version ${protocolVersion}, this Oarlock version ${hello.protocol}; stop the pods with the release that started them`;
      socket.end(`${JSON.stringify({ error: { code: 'Unavailable', message } } satisfies Welcome)}\n`);
      return;
    }
    socket.write(`${JSON.stringify({ welcome: this.#options.info } satisfies Welcome)}\n`);
    if (hello.role === 'session') void serveSession(socket, { request: hello.session, rest, services: this.#options.sessions });
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
        throw new SupervisorError('Unsupported', `the supervisor has no call ${JSON.stringify(call)}`);
      response = { id, result: (await handler(args)) ?? null };
    } catch (error) {
      if (!(error instanceof SupervisorError)) this.#options.log.error({ call, error: String((error as Error).stack) }, 'a call failed');
      response = { id, error: { code: error instanceof SupervisorError ? error.code : 'Internal', message: (error as Error).message } };
    }
    this.#send(socket, response);
    if (call === 'shutdown' && this.#closing) this.close();
  }

  #send(socket: Socket, message: FromSupervisor): void {
    if (socket.destroyed) return;
    if (socket.writableLength > maxUnsentBytes) {
      this.#options.log.warn({}, 'disconnecting a client that does not read');
      socket.destroy();
      return;
    }
    socket.write(`${JSON.stringify(message)}\n`);
  }

  /** Disconnects a client that sends an invalid message. */
  #guard<T>(socket: Socket, parse: () => T): T | undefined {
    try {
      return parse();
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, 'disconnecting a client that violates the protocol');
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
