import { once, EventEmitter } from 'node:events';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Health, Role } from '@oarlock/spi/role';

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly everyMs: number;
  beat(count: number): void;
}

/** Calls `beat` in a steady rhythm while it runs. */
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
    // to those who wait to be told that it is ready; without a listener an EventEmitter throws it
    if (this.#events.listenerCount('error') > 0) this.#events.emit('error', new Error(`${this.name} was stopped`));
  }

  health(): Health {
    return this.#timer === undefined ? { healthy: false, because: 'it does not run' } : { healthy: true };
  }

  async ready(signal?: AbortSignal): Promise<void> {
    if (this.#timer === undefined) await once(this.#events, 'started', { ...(signal && { signal }) });
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.everyMs, () => {
      this.#arm();
      this.#options.beat(++this.#beats);
    });
  }
}
