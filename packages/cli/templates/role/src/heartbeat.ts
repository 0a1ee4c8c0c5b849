import { once, EventEmitter } from 'node:events';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Health, Role } from '@oarlock/spi/role';

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly everyMs: number;
  beat(count: number): void;
}

/** Calls `beat` at a fixed interval while it runs. */
export class Heartbeat implements Role, Lifecycle {
  readonly name = '__ID__';
  readonly #options: HeartbeatOptions;
  readonly #events = new EventEmitter();
  #timer: Timer | undefined;
  #beats = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#arm();
    this.#events.emit('started');
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    // rejects pending waitUntilReady calls; an EventEmitter without a listener for `error` would throw
    if (this.#events.listenerCount('error') > 0) this.#events.emit('error', new Error(`${this.name} was stopped`));
  }

  checkHealth(): Health {
    return this.#timer === undefined ? { healthy: false, reason: 'the role is not running' } : { healthy: true };
  }

  async waitUntilReady(signal?: AbortSignal): Promise<void> {
    if (this.#timer === undefined) await once(this.#events, 'started', { ...(signal && { signal }) });
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.everyMs, () => {
      this.#arm();
      this.#options.beat(++this.#beats);
    });
  }
}
