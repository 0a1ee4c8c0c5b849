import { errorText } from '@oarlock/primitives/error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { runningPlugin, type PluginHealth } from '@oarlock/kernel/plugin-health';
import type { Client } from '@oarlock/spi/client';
import { startChild, type PluginChild, type Where } from './plugin-child.ts';
import { deserializeError } from './thread-client.ts';
import type { FromThreadMessage, CallResult, ReadyMessage, ThreadData, ToThreadMessage } from './thread-protocol.ts';
import { ThreadRequests } from './thread-requests.ts';

/** Time limits in milliseconds: of a ping, after which the thread counts as blocked, of a start, and of a stop. */
const heartbeatTimeoutMs = 250;
const startTimeoutMs = 30_000;
const stopTimeoutMs = 2_000;
/** Delay in milliseconds before another start of a thread that failed to start. */
const restartAfterMs = 1_000;
const maxWaiting = 4_096;

export interface ThreadOptions extends Omit<ThreadData, 'running'> {
  /** Time limits of the calls, by method. */
  readonly limits: Readonly<Record<string, number>>;
  readonly where: Where;
  readonly memoryMiB: number;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

interface PendingCall {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
  resolve(result: CallResult): void;
  reject(error: Error): void;
  timer?: Timer;
  /** True if the call was in flight when a thread ended. Such a call is retried once, while no other call runs. */
  retried: boolean;
}

/**
 * Runs a plugin in a worker thread with its own heap. A call that exceeds the deadline fails; if the call blocks the thread, the thread is
 * terminated. Running out of memory terminates the thread too. A new thread replaces a terminated thread, and retries the calls in flight once,
 * one after another, so that only the call that terminated the thread fails.
 */
export class PluginThread {
  readonly #options: ThreadOptions;
  readonly #calls = new Map<number, PendingCall>();
  /** Calls that wait until a thread is ready and all retries have run. */
  readonly #waiting: PendingCall[] = [];
  /** Calls to retry, one after another. */
  readonly #retries: PendingCall[] = [];
  readonly #requests: ThreadRequests;
  #child: PluginChild | undefined;
  #subscribed = false;
  readonly #health: PluginHealth | undefined = runningPlugin();
  /** Receives the keys that a controller in the thread enqueues. */
  onKeys: ((keys: readonly string[], spanContext: SpanContext | undefined) => void) | undefined;
  #running = new Int32Array(new SharedArrayBuffer(4));
  #alive = false;
  /** True if calls are sent to the thread; otherwise they wait. */
  #open = false;
  #recovering = false;
  #stopped = false;
  #ids = 0;
  #facts: ReadyMessage = { type: 'ready', methods: [], matches: [] };
  #probe: { readonly timer: Timer; readonly suspects: Set<PendingCall> } | undefined;
  #onFinished: (() => void) | undefined;

  constructor(options: ThreadOptions) {
    this.#options = options;
    this.#requests = new ThreadRequests(options.client, (message) => this.#send(message));
  }

  /** What the plugin reported when it had started. */
  get facts(): ReadyMessage {
    return this.#facts;
  }

  /** Starts the thread. @throws the error of the plugin's `create` or `start` */
  async start(): Promise<void> {
    await this.#spawn();
    this.#open = true;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const child = this.#child;
    if (child === undefined) return;
    await new Promise<void>((resolve) => {
      const timer = this.#options.clock.after(stopTimeoutMs, resolve);
      child.onMessage(({ type }) => {
        if (type !== 'stopped' && type !== 'refused') return;
        timer.cancel();
        resolve();
      });
      child.onExit(() => resolve());
      this.#send({ type: 'stop' });
    });
    await child.terminate();
    this.#requests.end();
  }

  call(method: string, args: readonly unknown[]): Promise<CallResult> {
    return new Promise((resolve, reject) => {
      const call: PendingCall = { id: ++this.#ids, method, args, resolve, reject, retried: false };
      if (this.#stopped) reject(new Error('the plugin is stopped'));
      else if (this.#open) this.#dispatch(call);
      else if (this.#waiting.length < maxWaiting) this.#waiting.push(call);
      else reject(new Error('its thread is restarting, and too many calls are waiting'));
    });
  }

  /** Sets whether the thread, and each that replaces it, sends the keys of its controller to `onKeys`. */
  subscribe(isSubscribed: boolean): void {
    this.#subscribed = isSubscribed;
    this.#send({ type: isSubscribed ? 'subscribe' : 'unsubscribe' });
  }

  #send(message: ToThreadMessage): void {
    this.#child?.post(message);
  }

  #dispatch(call: PendingCall): void {
    this.#calls.set(call.id, call);
    call.timer = this.#options.clock.after(this.#limitOf(call), () => this.#onTimeout(call));
    try {
      this.#send({ type: 'call', id: call.id, method: call.method, args: call.args });
    } catch (error) {
      this.#finish(call, error instanceof Error ? error : new Error(String(error)));
    }
  }

  #finish(call: PendingCall, outcome: CallResult | Error): void {
    call.timer?.cancel();
    if (!this.#calls.delete(call.id)) return;
    if (outcome instanceof Error) call.reject(outcome);
    else call.resolve(outcome);
    this.#onFinished?.();
  }

  /**
   * Handles a call that has exceeded its deadline. Terminates the thread if the call blocks it; otherwise pings the thread to detect whether another
   * call blocks it.
   */
  #onTimeout(call: PendingCall): void {
    if (this.#probe !== undefined) {
      this.#probe.suspects.add(call);
      return;
    }
    if (Atomics.load(this.#running, 0) === call.id) return this.#endThread(call);
    this.#probe = {
      suspects: new Set([call]),
      timer: this.#options.clock.after(heartbeatTimeoutMs, () => {
        this.#probe = undefined;
        this.#endThread(call);
      }),
    };
    this.#send({ type: 'ping' });
  }

  /** Ends the thread that a call blocks. The next retry starts when the thread has ended: otherwise it would end with this thread, and fail. */
  #endThread(call: PendingCall): void {
    this.#calls.delete(call.id);
    call.reject(this.#timeoutError(call));
    void this.#child?.terminate().then(() => this.#onFinished?.());
  }

  /** The limits of `routes.list` are those of `list`. */
  #limitOf = ({ method }: PendingCall): number => this.#options.limits[method.slice(method.lastIndexOf('.') + 1)] ?? 10_000;
  #timeoutError(call: PendingCall): Error {
    const error = new Error(`it did not answer within ${this.#limitOf(call)} ms`);
    this.#health?.report('deadline', error);
    return error;
  }

  #spawn(): Promise<void> {
    const { client: _client, clock, log, memoryMiB, limits: _, where, ...data } = this.#options;
    this.#running = new Int32Array(new SharedArrayBuffer(4));
    const child = startChild(where, { ...data, running: this.#running }, memoryMiB);
    this.#child = child;
    let reason: string | undefined;
    return new Promise<void>((resolve, reject) => {
      const timer = clock.after(startTimeoutMs, () => {
        reason = `it did not start within ${startTimeoutMs} ms`;
        void child.terminate();
      });
      let ready = false;
      child.onExit((cause) => {
        timer.cancel();
        this.#requests.end();
        this.#alive = false;
        if (ready) this.#onExit(reason ?? cause);
        else reject(new Error(reason ?? cause));
      });
      child.onMessage((message) => {
        if (message.type === 'ready') {
          timer.cancel();
          ready = true;
          this.#alive = true;
          this.#facts = message;
          if (this.#subscribed) this.#send({ type: 'subscribe' });
          resolve();
        } else if (message.type === 'refused' && !ready) {
          reason = message.error.message;
          void child.terminate();
        } else this.#onMessage(message, log);
      });
    });
  }

  /** Handles an unexpected end of the thread: schedules retries of the calls in flight in a new thread. */
  #onExit(reason: string): void {
    this.#open = false;
    this.#probe?.timer.cancel();
    this.#probe = undefined;
    for (const call of [...this.#calls.values()]) {
      if (call.retried || this.#stopped) {
        this.#finish(call, new Error(reason));
        continue;
      }
      call.timer?.cancel();
      call.retried = true;
      this.#retries.push(call);
    }
    this.#calls.clear();
    if (this.#stopped) return;
    this.#health?.report('ended', new Error(reason));
    if (this.#recovering) return;
    this.#options.log.warn(
      { why: reason, retried: this.#retries.length },
      `the ${this.#options.where} of a plugin ended; starting a new one`,
    );
    void this.#recover();
  }

  /** Retries calls one after another, so that only a call that terminates the thread fails. */
  async #recover(): Promise<void> {
    this.#recovering = true;
    try {
      while (!this.#stopped) {
        if (!this.#alive) await this.#spawn();
        const call = this.#retries.shift();
        if (call === undefined) break;
        await new Promise<void>((resolve) => {
          this.#onFinished = resolve;
          this.#dispatch(call);
        });
        this.#onFinished = undefined;
      }
      this.#open = !this.#stopped;
      for (const call of this.#waiting.splice(0)) this.#dispatch(call);
    } catch (cause) {
      const error = new Error(`its thread cannot be started: ${errorText(cause)}`, { cause });
      for (const call of [...this.#retries.splice(0), ...this.#waiting.splice(0)]) call.reject(error);
      if (this.#stopped) return;
      this.#options.log.error({ err: error }, 'the thread of a plugin cannot be started');
      this.#options.clock.after(restartAfterMs, () => {
        if (!this.#stopped && !this.#recovering) void this.#recover();
      });
    } finally {
      this.#recovering = false;
    }
  }

  #onMessage(message: FromThreadMessage, log: Logger): void {
    switch (message.type) {
      case 'result': {
        const call = this.#calls.get(message.id);
        if (call !== undefined) this.#finish(call, message.result);
        return;
      }
      case 'pong': {
        const suspects = this.#probe?.suspects ?? [];
        this.#probe?.timer.cancel();
        this.#probe = undefined;
        for (const call of suspects) this.#finish(call, this.#timeoutError(call));
        return;
      }
      case 'keys':
        this.onKeys?.(message.keys, message.spanContext);
        return;
      case 'log':
        if (['debug', 'info', 'warn', 'error'].includes(message.level)) log[message.level](message.fields, message.text);
        return;
      default:
        this.#requests.handleMessage(message);
    }
  }
}

/** Returns the value of a result. @throws the error that the plugin threw */
export function unwrapResult({ value, error }: CallResult): unknown {
  if (error !== undefined) throw deserializeError(error);
  return value;
}
