import type { Timer } from '@oarlock/kernel/clock';
import type { Probe } from '@oarlock/api/types/core-v1';
import type { ProbeOutcome } from './probe-outcome.ts';
import { attemptProbe, type ProbeTarget } from './probe-action.ts';

export interface ProbeRunnerOptions extends Omit<ProbeTarget, 'signal' | 'probe'> {
  readonly probe: Probe;
  /** Milliseconds until the first attempt. */
  readonly firstMs: number;
  /** What holds until the threshold is first reached. */
  readonly initial: boolean | undefined;
  /** Every attempt, with the verdict after it; `changed` when it is another than before. */
  heard(outcome: ProbeOutcome, verdict: boolean | undefined, changed: boolean, durationMs: number): void;
}

/** Attempts that could not be made are repeated at once, this many times. */
const maxRetries = 3;

/** One probe of one running container: an attempt each period, a verdict when enough of a kind came in a row. */
export class ProbeRunner {
  readonly containerId: string;
  readonly #options: ProbeRunnerOptions;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #verdict: boolean | undefined;
  #last: 'success' | 'failure' | undefined;
  #run = 0;

  constructor(options: ProbeRunnerOptions) {
    this.containerId = options.containerId;
    this.#options = options;
    this.#verdict = options.initial;
    this.#timer = options.clock.after(options.firstMs, () => {
      void this.#attempt();
    });
  }

  get verdict(): boolean | undefined {
    return this.#verdict;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#stop.abort();
  }

  async #attempt(): Promise<void> {
    const { kind, clock, probe } = this.#options;
    const { signal } = this.#stop;
    const began = clock.monotonic();
    let outcome: ProbeOutcome = { result: 'error', output: '' };
    try {
      for (let tries = 0; tries < maxRetries && outcome.result === 'error'; tries += 1)
        outcome = await attemptProbe({ ...this.#options, signal });
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    const took = clock.monotonic() - began;
    const before = this.#verdict;
    let settled = false;
    if (outcome.result !== 'error') {
      this.#run = outcome.result === this.#last ? this.#run + 1 : 1;
      this.#last = outcome.result;
      const threshold = outcome.result === 'success' ? (probe.successThreshold ?? 1) : (probe.failureThreshold ?? 3);
      if (this.#run >= threshold) {
        this.#verdict = outcome.result === 'success';
        // a container that is to be killed is not asked again, and one that has started is not asked whether it has
        settled = (kind !== 'readiness' && !this.#verdict) || (kind === 'startup' && this.#verdict);
      }
    }
    if (!settled) {
      const period = (probe.periodSeconds ?? 10) * 1000;
      this.#timer = clock.after(Math.max(0, period - took), () => {
        void this.#attempt();
      });
    }
    this.#options.heard(outcome, this.#verdict, this.#verdict !== before, took);
  }
}
