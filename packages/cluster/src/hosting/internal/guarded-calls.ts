import type { PluginHealth } from '@oarlock/kernel/plugin-health';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { enterPlugin, numberOf } from '../watchdog/running-call.ts';

/** Time in milliseconds for which calls in flight may continue when the cluster stops. */
const stopGraceMs = 2_000;

/** The error if a plugin violates the contract of its slot. */
export class PluginFault extends Error {
  override readonly name = 'PluginFault';
}

/**
 * Calls the methods of one plugin instance: attributes their late errors to the plugin, abandons calls without a result at their deadline and when
 * the cluster stops, and counts faults.
 */
export class GuardedCalls {
  readonly health: PluginHealth;
  readonly #clock: Clock;
  readonly #number: number;
  readonly #inFlight = new Set<() => void>();
  #stopTimer: Timer | undefined;

  constructor(health: PluginHealth, clock: Clock) {
    this.health = health;
    this.#clock = clock;
    this.#number = numberOf(health.name);
    health.stopping.addEventListener('abort', () => this.#onStopping(), { once: true });
  }

  /** Runs a synchronous method that is called often, such as a filter. Late errors are attributed by their stack only. */
  enter<T>(work: () => T): T {
    this.health.enter();
    return enterPlugin(this.#number, work);
  }

  /**
   * Runs a method. @param ms time limit of the promise that it returns; undefined if there is none
   * @param isEssential true for a plugin that is never suspended, because all others depend on it
   * @throws the plugin's error; PluginFault if the method has no result in time, or if the plugin is suspended
   */
  call<T>(ms: number | undefined, work: () => T | Promise<T>, isEssential = false): T | Promise<T> {
    const { health } = this;
    if (health.isSuspended && !isEssential) throw new PluginFault('it is suspended because of unhandled errors');
    try {
      const answer = enterPlugin(this.#number, () => health.run(work));
      return answer instanceof Promise ? this.#waitFor(answer, ms) : answer;
    } catch (error) {
      health.report('error', error);
      throw error;
    }
  }

  #waitFor<T>(answer: Promise<T>, ms: number | undefined): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const timer =
        ms === undefined
          ? undefined
          : this.#clock.after(ms, () => {
              const fault = new PluginFault(`it did not answer within ${ms} ms`);
              this.health.report('deadline', fault);
              end();
              reject(fault);
            });
      const abandon = () => {
        end();
        reject(new PluginFault('it was abandoned, because the cluster stops'));
      };
      const end = () => {
        timer?.cancel();
        this.#inFlight.delete(abandon);
        if (this.#inFlight.size === 0) this.#stopTimer?.cancel();
      };
      this.#inFlight.add(abandon);
      if (this.health.stopping.aborted) this.#onStopping();
      answer.then(
        (result) => {
          end();
          resolve(result);
        },
        (error: unknown) => {
          if (this.#inFlight.has(abandon)) this.health.report('error', error);
          end();
          reject(error);
        },
      );
    });
  }

  #onStopping(): void {
    this.#stopTimer?.cancel();
    this.#stopTimer = this.#clock.after(stopGraceMs, () => {
      for (const abandon of [...this.#inFlight]) abandon();
    });
  }
}
