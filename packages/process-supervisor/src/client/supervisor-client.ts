import { connect, type Socket } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { socketPath } from '@oarlock/primitives/os/socket-path';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import { hasPods } from '../containers/pod-store.ts';
import {
  Lines,
  protocolVersion,
  type CallName,
  type Calls,
  type FromSupervisor,
  type Hello,
  type SessionRequest,
  type SupervisorInfo,
  type Welcome,
  socketName,
} from '../protocol/supervisor-protocol.ts';
import { launchSupervisor, type SupervisorProgram } from './supervisor-launch.ts';

interface PendingCall {
  resolve(result: unknown): void;
  reject(error: Error): void;
}
interface Connection {
  readonly socket: Socket;
  readonly info: SupervisorInfo;
  readonly pending: Map<number, PendingCall>;
}

/** Delays between attempts to reach a supervisor that another process is starting, or that ended while it had pods. */
const initialRetryDelayMs = 10;
const maxRetryDelayMs = 500;
const connectTimeoutMs = 20_000;
/** Error codes of a connection if there is no supervisor, or one that is ending. */
const unavailableCodes = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'Ending']);

/** The driver's control connection: connects on demand, starts the supervisor on demand, and reconnects when the connection is lost. */
export class SupervisorClient {
  readonly #program: SupervisorProgram;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onEvent: (event: RuntimeEvent | 'resync') => void;
  #path: string | undefined;
  #connection: Connection | undefined;
  #connecting: Promise<Connection> | undefined;
  #next = 0;
  #stopped = false;

  constructor(
    program: SupervisorProgram,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
    onEvent: (event: RuntimeEvent | 'resync') => void,
  ) {
    this.#program = program;
    this.#clock = clock;
    this.#log = log;
    this.#onEvent = onEvent;
  }

  /** Undefined while not connected. */
  get info(): SupervisorInfo | undefined {
    return this.#connection?.info;
  }

  /** Connects to a running supervisor, or starts one if an earlier one left pods. Returns false if there are neither. */
  async connectIfAny(): Promise<boolean> {
    if (this.#connection || this.#connecting) {
      await this.#connected();
      return true;
    }
    const connection = await this.#tryOpen();
    if (connection) {
      this.#adopt(connection);
      return true;
    }
    if (!hasPods(this.#program.options.dataDir)) return false;
    await this.#connected();
    return true;
  }

  /** Makes a call, and starts a supervisor if there is none. @throws RuntimeError with the supervisor's error, or the signal's reason if it aborts */
  async call<K extends CallName>(call: K, args: Calls[K]['in'], signal?: AbortSignal): Promise<Calls[K]['out']> {
    signal?.throwIfAborted();
    const { socket, pending } = await abortable(this.#connected(), signal);
    const id = ++this.#next;
    const response = new Promise<unknown>((resolve, reject) => {
      pending.set(id, { resolve, reject });
    });
    socket.write(`${JSON.stringify({ id, call, args })}\n`);
    return (await abortable(response, signal)) as Calls[K]['out'];
  }

  /** Opens a connection for one session, after the supervisor's welcome. The caller owns it. */
  async session(request: SessionRequest, signal?: AbortSignal): Promise<{ readonly socket: Socket; readonly rest: Buffer }> {
    await abortable(this.#connected(), signal);
    try {
      const { socket, rest } = await this.#handshake({ protocol: protocolVersion, role: 'session', session: request });
      return { socket, rest };
    } catch (error) {
      if (error instanceof RuntimeError) throw error;
      throw new RuntimeError('Unavailable', (error as Error).message, { cause: error });
    }
  }

  /** Closes the connection to the supervisor, which keeps running. */
  stop(): void {
    this.#stopped = true;
    this.#connection?.socket.destroy();
  }

  #connected(): Promise<Connection> {
    if (this.#stopped) return Promise.reject(new RuntimeError('Unavailable', 'the runtime has been stopped'));
    if (this.#connection) return Promise.resolve(this.#connection);
    this.#connecting ??= this.#open()
      .then((connection) => this.#adopt(connection))
      .finally(() => {
        this.#connecting = undefined;
      });
    return this.#connecting;
  }

  async #open(): Promise<Connection> {
    const end = this.#clock.monotonic() + connectTimeoutMs;
    for (let pause = initialRetryDelayMs; ; pause = Math.min(pause * 2, maxRetryDelayMs)) {
      const existing = await this.#tryOpen();
      if (existing) return existing;
      await launchSupervisor(this.#program, this.#clock);
      const launched = await this.#tryOpen();
      if (launched) return launched;
      if (this.#clock.monotonic() > end) throw new RuntimeError('Unavailable', 'the supervisor of the containers cannot be reached');
      await this.#clock.sleep(pause); // another process is starting one, or one is ending
    }
  }

  /** Returns undefined if no supervisor listens. */
  async #tryOpen(): Promise<Connection | undefined> {
    try {
      const { socket, info, rest } = await this.#handshake({ protocol: protocolVersion, role: 'control' });
      const connection: Connection = { socket, info, pending: new Map() };
      this.#read(connection, rest);
      return connection;
    } catch (error) {
      if (unavailableCodes.has((error as NodeJS.ErrnoException).code ?? '')) return undefined;
      throw error;
    }
  }

  #adopt(connection: Connection): Connection {
    if (connection.socket.destroyed) throw new RuntimeError('Unavailable', 'the supervisor of the containers closed the connection');
    this.#connection = connection;
    return connection;
  }

  async #handshake(hello: Hello): Promise<{ readonly socket: Socket; readonly info: SupervisorInfo; readonly rest: Buffer }> {
    this.#path ??= socketPath(this.#program.options.dataDir, socketName);
    const socket = connect(this.#path);
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        socket.destroy();
        reject(error);
      };
      const lines = new Lines();
      const read = (chunk: Buffer) => {
        const end = chunk.indexOf(10);
        const [line] = lines.push(end < 0 ? chunk : chunk.subarray(0, end + 1));
        if (line === undefined) return;
        socket.off('data', read).off('error', fail).off('close', closed).pause();
        const response = JSON.parse(line) as Welcome;
        if ('ending' in response) fail(Object.assign(new Error('the supervisor of the containers is ending'), { code: 'Ending' }));
        else if ('error' in response) fail(new RuntimeError(response.error.code, response.error.message));
        else resolve({ socket, info: response.welcome, rest: chunk.subarray(end + 1) });
      };
      const closed = () => fail(Object.assign(new Error('the supervisor of the containers closed the connection'), { code: 'Ending' }));
      socket.once('error', fail).once('close', closed).on('data', read);
      socket.write(`${JSON.stringify(hello)}\n`);
    });
  }

  #read(connection: Connection, rest: Buffer): void {
    const { socket, pending } = connection;
    const lines = new Lines();
    const push = (chunk: Buffer) => {
      for (const line of lines.push(chunk)) this.#handle(JSON.parse(line) as FromSupervisor, pending);
    };
    socket.on('error', () => {}); // handled by 'close'
    socket.once('close', () => {
      for (const { reject } of pending.values())
        reject(new RuntimeError('Unavailable', 'the connection to the supervisor of the containers was lost'));
      pending.clear();
      if (this.#connection === connection) this.#connection = undefined;
      if (!this.#stopped) void this.#reconnect();
    });
    if (rest.length > 0) push(rest);
    socket.on('data', push).resume();
  }

  #handle(message: FromSupervisor, pending: Map<number, PendingCall>): void {
    if ('event' in message) {
      this.#onEvent(message.event);
      return;
    }
    const call = pending.get(message.id);
    pending.delete(message.id);
    if ('error' in message) call?.reject(new RuntimeError(message.error.code, message.error.message));
    else call?.resolve(message.result);
  }

  /** Reconnects after the supervisor ended or closed the connection, and emits `resync` for the events that were missed. */
  async #reconnect(): Promise<void> {
    for (let pause = initialRetryDelayMs; !this.#stopped; pause = Math.min(pause * 2, maxRetryDelayMs)) {
      try {
        if (!this.#connection) await this.connectIfAny();
        this.#onEvent('resync');
        return;
      } catch (error) {
        this.#log.warn({ error: (error as Error).message }, 'cannot reach the supervisor of the containers, retrying');
        await this.#clock.sleep(pause);
      }
    }
  }
}

/** Returns the promise's result, or rejects with the signal's reason if that comes first. The work itself continues. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
