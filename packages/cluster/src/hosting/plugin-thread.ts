import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { AdmissionRule } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import { fromSource } from '../plugin-compiler.ts';
import { uncarried } from './thread-client.ts';
import type { FromThread, Result, ThreadData, ToThread } from './thread-protocol.ts';
import { ThreadRequests } from './thread-requests.ts';

/** How long a thread may be silent before it is taken to be stuck, to start, and to stop. */
const silenceMs = 250;
const startMs = 30_000;
const stopMs = 2_000;
/** A thread that cannot start is not tried again at once. */
const restartAfterMs = 1_000;
const maxWaiting = 4_096;

export interface ThreadOptions extends Omit<ThreadData, 'running'> {
  readonly deadlineMs: number;
  readonly memoryMiB: number;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Call {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
  resolve(result: Result): void;
  reject(error: Error): void;
  timer?: Timer;
  /** It was under way when a thread ended: it is tried once more, alone. */
  retried: boolean;
}

const here = createRequire(import.meta.url);
/** The thread's own program: source where we run from source, else what the compiler made, also when we run from one joined file. */
function program(): { readonly file: string; readonly execArgv: string[] } {
  if (!fromSource) return { file: here.resolve('@oarlock/cluster/hosting/thread-main'), execArgv: [] };
  const loader = join(dirname(here.resolve('@oxc-node/core')), 'register.mjs');
  return {
    file: fileURLToPath(new URL('./thread-main.ts', import.meta.url)),
    execArgv: ['--conditions=@oarlock/source', '--import', pathToFileURL(loader).href],
  };
}

/**
 * A plugin in a thread with a heap of its own. A call that takes too long fails, and ends the thread when it holds it; so does running out of
 * memory. Another thread then takes its place, and calls that were under way are tried there once more, one after another, so that only the
 * one that did it fails.
 */
export class PluginThread {
  readonly #options: ThreadOptions;
  readonly #calls = new Map<number, Call>();
  /** Until a thread is ready, and those that are to be tried alone have been. */
  readonly #waiting: Call[] = [];
  /** To be tried once more, alone. */
  readonly #again: Call[] = [];
  readonly #requests: ThreadRequests;
  #worker: Worker | undefined;
  #running = new Int32Array(new SharedArrayBuffer(4));
  #alive = false;
  /** Calls go to the thread; else they wait. */
  #open = false;
  #recovering = false;
  #stopped = false;
  #ids = 0;
  #matches: readonly AdmissionRule[] = [];
  #methods: readonly string[] = [];
  #probe: { readonly timer: Timer; readonly suspects: Set<Call> } | undefined;
  #settled: (() => void) | undefined;

  constructor(options: ThreadOptions) {
    this.#options = options;
    this.#requests = new ThreadRequests(options.client, (message) => this.#send(message));
  }

  get matches(): readonly AdmissionRule[] {
    return this.#matches;
  }
  get methods(): readonly string[] {
    return this.#methods;
  }

  /** @throws Error as the plugin did when it was created or started */
  async start(): Promise<void> {
    await this.#spawn();
    this.#open = true;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    await new Promise<void>((resolve) => {
      const timer = this.#options.clock.after(stopMs, resolve);
      worker.on('message', ({ type }: FromThread) => {
        if (type !== 'stopped' && type !== 'refused') return;
        timer.cancel();
        resolve();
      });
      worker.once('exit', () => resolve());
      this.#send({ type: 'stop' });
    });
    await worker.terminate();
    this.#requests.end();
  }

  call(method: string, args: readonly unknown[]): Promise<Result> {
    return new Promise((resolve, reject) => {
      const call: Call = { id: ++this.#ids, method, args, resolve, reject, retried: false };
      if (this.#stopped) reject(new Error('it is stopped'));
      else if (this.#open) this.#dispatch(call);
      else if (this.#waiting.length < maxWaiting) this.#waiting.push(call);
      else reject(new Error('its thread is being started anew, and too much waits for it'));
    });
  }

  #send(message: ToThread): void {
    this.#worker?.postMessage(message);
  }

  #dispatch(call: Call): void {
    this.#calls.set(call.id, call);
    call.timer = this.#options.clock.after(this.#options.deadlineMs, () => this.#late(call));
    try {
      this.#send({ type: 'call', id: call.id, method: call.method, args: call.args });
    } catch (error) {
      this.#finish(call, error instanceof Error ? error : new Error(String(error)));
    }
  }

  #finish(call: Call, outcome: Result | Error): void {
    call.timer?.cancel();
    if (!this.#calls.delete(call.id)) return;
    if (outcome instanceof Error) call.reject(outcome);
    else call.resolve(outcome);
    this.#settled?.();
  }

  /** Too late. Whoever holds the thread at this moment ends it; else it is asked whether it still answers. */
  #late(call: Call): void {
    if (this.#probe !== undefined) {
      this.#probe.suspects.add(call);
      return;
    }
    const holder = Atomics.load(this.#running, 0);
    if (holder === call.id) {
      this.#finish(call, this.#tooLate());
      void this.#worker?.terminate();
      return;
    }
    const suspects = new Set([call]);
    this.#probe = {
      suspects,
      timer: this.#options.clock.after(silenceMs, () => {
        this.#probe = undefined;
        this.#finish(call, this.#tooLate());
        void this.#worker?.terminate();
      }),
    };
    this.#send({ type: 'ping' });
  }
  #tooLate = (): Error => new Error(`it did not answer within ${this.#options.deadlineMs} ms`);

  #spawn(): Promise<void> {
    const { client: _client, clock, log, memoryMiB, deadlineMs: _, ...data } = this.#options;
    this.#running = new Int32Array(new SharedArrayBuffer(4));
    const { file, execArgv } = program();
    const worker = new Worker(file, {
      workerData: { ...data, running: this.#running } satisfies ThreadData,
      resourceLimits: { maxOldGenerationSizeMb: memoryMiB, maxYoungGenerationSizeMb: Math.max(4, Math.floor(memoryMiB / 8)) },
      execArgv,
      stdin: false,
    });
    worker.unref();
    this.#worker = worker;
    let why = 'its thread ended';
    return new Promise<void>((resolve, reject) => {
      const timer = clock.after(startMs, () => {
        why = `it did not start within ${startMs} ms`;
        void worker.terminate();
      });
      let ready = false;
      worker.on('error', (error: NodeJS.ErrnoException) => {
        why =
          error.code === 'ERR_WORKER_OUT_OF_MEMORY'
            ? `its thread ran out of memory (${memoryMiB} MiB)`
            : `its thread ended: ${error.message}`;
      });
      worker.on('exit', () => {
        timer.cancel();
        this.#requests.end();
        this.#alive = false;
        if (ready) this.#ended(why);
        else reject(new Error(why));
      });
      worker.on('message', (message: FromThread) => {
        if (message.type === 'ready') {
          timer.cancel();
          ready = true;
          this.#alive = true;
          this.#methods = message.methods;
          this.#matches = message.matches;
          resolve();
        } else if (message.type === 'refused' && !ready) {
          why = message.error.message;
          void worker.terminate();
        } else this.#take(message, log);
      });
    });
  }

  /** Not asked for: what was under way is tried again in another thread. */
  #ended(why: string): void {
    this.#open = false;
    this.#probe?.timer.cancel();
    this.#probe = undefined;
    for (const call of [...this.#calls.values()]) {
      if (call.retried || this.#stopped) {
        this.#finish(call, new Error(why));
        continue;
      }
      call.timer?.cancel();
      call.retried = true;
      this.#again.push(call);
    }
    this.#calls.clear();
    if (this.#stopped || this.#recovering) return;
    this.#options.log.warn({ why, retried: this.#again.length }, 'the thread of a plugin ended; another takes its place');
    void this.#recover();
  }

  /** One after another, so that the one that ends threads is found, and alone fails. */
  async #recover(): Promise<void> {
    this.#recovering = true;
    try {
      while (!this.#stopped) {
        if (!this.#alive) await this.#spawn();
        const call = this.#again.shift();
        if (call === undefined) break;
        await new Promise<void>((resolve) => {
          this.#settled = resolve;
          this.#dispatch(call);
        });
        this.#settled = undefined;
      }
      this.#open = !this.#stopped;
      for (const call of this.#waiting.splice(0)) this.#dispatch(call);
    } catch (cause) {
      const error = new Error(`its thread cannot be started: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
      for (const call of [...this.#again.splice(0), ...this.#waiting.splice(0)]) call.reject(error);
      if (this.#stopped) return;
      this.#options.log.error({ err: error }, 'the thread of a plugin cannot be started');
      this.#options.clock.after(restartAfterMs, () => {
        if (!this.#stopped && !this.#recovering) void this.#recover();
      });
    } finally {
      this.#recovering = false;
    }
  }

  #take(message: FromThread, log: Logger): void {
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
        for (const call of suspects) this.#finish(call, this.#tooLate());
        return;
      }
      case 'log':
        log[message.level](message.fields, message.text);
        return;
      default:
        this.#requests.take(message);
    }
  }
}

/** What a result means to who asked. @throws Error that the plugin threw */
export function valueOf({ value, error }: Result): unknown {
  if (error !== undefined) throw uncarried(error);
  return value;
}
