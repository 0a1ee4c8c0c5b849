import type { Timer } from '@oarlock/primitives/clock';
import type { Probe } from '@oarlock/api/types/core-v1';
import type { ProbeAttemptResult } from './probe-result.ts';
import { runProbe, type ProbeTarget } from './prober.ts';

export interface ProbeWorkerOptions extends Omit<ProbeTarget, 'signal' | 'probe'> {
  readonly probe: Probe;
  /** The delay before the first attempt. Milliseconds. */
  readonly initialDelayMs: number;
  /** The result of the probe until a threshold is first reached. */
  readonly initial: boolean | undefined;
  /** Called after each attempt. `result` is the probe's result; `changed` is true if `result` differs from the previous one. */
  onAttempt(attempt: ProbeAttemptResult, result: boolean | undefined, changed: boolean, durationMs: number): void;
}

/** The maximum number of immediate retries of an attempt that could not be made. */
const maxRetries = 3;

/**
 * Runs one probe of one running container with one attempt per period. The probe's result changes when consecutive attempts reach the success or
 * failure threshold.
 */
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
