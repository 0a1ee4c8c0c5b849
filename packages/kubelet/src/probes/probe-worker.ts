import type { Timer } from '@oarlock/primitives/clock';
import type { Probe } from '@oarlock/api/types/core-v1';
import type { ProbeAttemptResult } from './probe-result.ts';
import { runProbe, type ProbeTarget } from './prober.ts';

export interface ProbeWorkerOptions extends Omit<ProbeTarget, 'signal' | 'probe'> {
  readonly probe: Probe;
  /** Milliseconds until the first attempt. */
  readonly initialDelayMs: number;
  /** The result until a threshold is first reached. */
  readonly initial: boolean | undefined;
  /** Called after each attempt with the probe's result; `changed` if the result differs from the previous one. */
  onAttempt(attempt: ProbeAttemptResult, result: boolean | undefined, changed: boolean, durationMs: number): void;
}

/** The maximum number of immediate tries of an attempt that cannot be made. */
const maxRetries = 3;

/** One probe of one running container: an attempt per period; the result changes when a threshold of consecutive attempts is reached. */
export class ProbeWorker {
  readonly containerId: string;
  readonly #options: ProbeWorkerOptions;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #result: boolean | undefined;
  #last: 'success' | 'failure' | undefined;
  #run = 0;

  constructor(options: ProbeWorkerOptions) {
    this.containerId = options.containerId;
    this.#options = options;
    this.#result = options.initial;
    this.#timer = options.clock.after(options.initialDelayMs, () => {
      void this.#attempt();
    });
  }

  get result(): boolean | undefined {
    return this.#result;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#stop.abort();
  }

  async #attempt(): Promise<void> {
    const { kind, clock, probe } = this.#options;
    const { signal } = this.#stop;
    const began = clock.monotonic();
    let attempt: ProbeAttemptResult = { result: 'error', output: '' };
    try {
      for (let tries = 0; tries < maxRetries && attempt.result === 'error'; tries += 1)
        attempt = await runProbe({ ...this.#options, signal });
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    const took = clock.monotonic() - began;
    const before = this.#result;
    let final = false;
    if (attempt.result !== 'error') {
      this.#run = attempt.result === this.#last ? this.#run + 1 : 1;
      this.#last = attempt.result;
      const threshold = attempt.result === 'success' ? (probe.successThreshold ?? 1) : (probe.failureThreshold ?? 3);
      if (this.#run >= threshold) {
        this.#result = attempt.result === 'success';
        // a failed container is going to be killed, and a startup probe ends with its first success
        final = (kind !== 'readiness' && !this.#result) || (kind === 'startup' && this.#result);
      }
    }
    if (!final) {
      const period = (probe.periodSeconds ?? 10) * 1000;
      this.#timer = clock.after(Math.max(0, period - took), () => {
        void this.#attempt();
      });
    }
    this.#options.onAttempt(attempt, this.#result, this.#result !== before, took);
  }
}
