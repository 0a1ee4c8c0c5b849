import { connect, type Socket } from 'node:net';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import { hasPods } from './pod-store.ts';
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
} from './protocol.ts';
import { socketPath } from './socket-path.ts';
import { launchSupervisor } from './supervisor-launch.ts';
import type { SupervisorOptions } from './supervisor.ts';

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}
interface Connection {
  readonly socket: Socket;
  readonly info: SupervisorInfo;
  readonly waiting: Map<number, Waiting>;
}

/** Waits between attempts to reach a supervisor that another process is starting, or that ended while pods are there. */
const firstPauseMs = 10;
const longestPauseMs = 500;
const patienceMs = 20_000;
/** What a connection fails with when there is no supervisor, or one at its end. */
const away = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'Ending']);

/** The driver's side of the control connection: opens it at need, starts the supervisor at need, and comes back when it was lost. */
export class SupervisorClient {
  readonly #options: SupervisorOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #told: (event: RuntimeEvent | 'resync') => void;
  #path: string | undefined;
  #connection: Connection | undefined;
  #connecting: Promise<Connection> | undefined;
  #next = 0;
  #stopped = false;

  constructor(options: SupervisorOptions, clock: Clock, log: Logger, told: (event: RuntimeEvent | 'resync') => void) {
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#told = told;
  }

  /** Undefined while there is none. */
  get info(): SupervisorInfo | undefined {
    return this.#connection?.info;
  }

  /** Connects to a supervisor that runs, or starts one when an earlier left pods. False when there is nothing to talk about. */
  async connectIfAny(): Promise<boolean> {
    if (this.#connection || this.#connecting) {
      await this.#connected();
      return true;
    }
    const found = await this.#tryOpen();
    if (found) {
      this.#adopt(found);
      return true;
    }
    if (!hasPods(this.#options.dataDir)) return false;
    await this.#connected();
    return true;
  }

  /** Starts a supervisor when there is none. @throws RuntimeError with the supervisor's refusal; the signal's reason */
  async call<K extends CallName>(call: K, args: Calls[K]['in'], signal?: AbortSignal): Promise<Calls[K]['out']> {
    signal?.throwIfAborted();
    const { socket, waiting } = await abortable(this.#connected(), signal);
    const id = ++this.#next;
    const answer = new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
    });
    socket.write(`${JSON.stringify({ id, call, args })}\n`);
    return (await abortable(answer, signal)) as Calls[K]['out'];
  }

  /** A connection for one session, after the supervisor's welcome. The caller owns it. */
  async session(request: SessionRequest, signal?: AbortSignal): Promise<{ readonly socket: Socket; readonly rest: Buffer }> {
    await abortable(this.#connected(), signal);
    try {
      const { socket, rest } = await this.#greet({ protocol: protocolVersion, role: 'session', session: request });
      return { socket, rest };
    } catch (error) {
      if (error instanceof RuntimeError) throw error;
      throw new RuntimeError('Unavailable', (error as Error).message, { cause: error });
    }
  }

  /** Ends the connection; the supervisor stays. */
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
    const end = this.#clock.monotonic() + patienceMs;
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      const found = await this.#tryOpen();
      if (found) return found;
      await launchSupervisor(this.#options, this.#clock);
      const made = await this.#tryOpen();
      if (made) return made;
      if (this.#clock.monotonic() > end) throw new RuntimeError('Unavailable', 'the supervisor of process containers cannot be reached');
      await this.#clock.sleep(pause); // one is beginning in another process's hands, or ending
    }
  }

  /** Undefined when nobody listens, or not any more. */
  async #tryOpen(): Promise<Connection | undefined> {
    try {
      const { socket, info, rest } = await this.#greet({ protocol: protocolVersion, role: 'control' });
      const connection: Connection = { socket, info, waiting: new Map() };
      this.#read(connection, rest);
      return connection;
    } catch (error) {
      if (away.has((error as NodeJS.ErrnoException).code ?? '')) return undefined;
      throw error;
    }
  }

  #adopt(connection: Connection): Connection {
    if (connection.socket.destroyed) throw new RuntimeError('Unavailable', 'the supervisor of process containers closed the connection');
    this.#connection = connection;
    return connection;
  }

  async #greet(hello: Hello): Promise<{ readonly socket: Socket; readonly info: SupervisorInfo; readonly rest: Buffer }> {
    this.#path ??= socketPath(this.#options.dataDir);
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
        const answer = JSON.parse(line) as Welcome;
        if ('ending' in answer) fail(Object.assign(new Error('the supervisor of process containers is ending'), { code: 'Ending' }));
        else if ('error' in answer) fail(new RuntimeError(answer.error.code, answer.error.message));
        else resolve({ socket, info: answer.welcome, rest: chunk.subarray(end + 1) });
      };
      const closed = () => fail(Object.assign(new Error('the supervisor of process containers closed the connection'), { code: 'Ending' }));
      socket.once('error', fail).once('close', closed).on('data', read);
      socket.write(`${JSON.stringify(hello)}\n`);
    });
  }

  #read(connection: Connection, rest: Buffer): void {
    const { socket, waiting } = connection;
    const lines = new Lines();
    const push = (chunk: Buffer) => {
      for (const line of lines.push(chunk)) this.#take(JSON.parse(line) as FromSupervisor, waiting);
    };
    socket.on('error', () => {}); // its close tells
    socket.once('close', () => {
      for (const { reject } of waiting.values())
        reject(new RuntimeError('Unavailable', 'the connection to the supervisor of process containers was lost'));
      waiting.clear();
      if (this.#connection === connection) this.#connection = undefined;
      if (!this.#stopped) void this.#comeBack();
    });
    if (rest.length > 0) push(rest);
    socket.on('data', push).resume();
  }

  #take(message: FromSupervisor, waiting: Map<number, Waiting>): void {
    if ('event' in message) {
      this.#told(message.event);
      return;
    }
    const one = waiting.get(message.id);
    waiting.delete(message.id);
    if ('error' in message) one?.reject(new RuntimeError(message.error.code, message.error.message));
    else one?.resolve(message.result);
  }

  /** The supervisor ended, or cut us off. What happened meanwhile is in the lists. */
  async #comeBack(): Promise<void> {
    for (let pause = firstPauseMs; !this.#stopped; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        if (!this.#connection) await this.connectIfAny();
        this.#told('resync');
        return;
      } catch (error) {
        this.#log.warn({ error: (error as Error).message }, 'the supervisor of process containers is away');
        await this.#clock.sleep(pause);
      }
    }
  }
}

/** The promise, or the signal's reason when that comes first. What was begun goes on. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
