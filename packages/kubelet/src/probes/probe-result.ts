import type { Clock } from '@oarlock/primitives/clock';

/** The result of one attempt of a probe. `error` means that the attempt could not be made; such an attempt does not count. */
export interface ProbeAttemptResult {
  readonly result: 'success' | 'failure' | 'error';
  /** The output of the probed endpoint or command, for events. */
  readonly output: string;
  /** True if the attempt succeeded but is recorded as a warning event. */
  readonly warning?: true;
}

/** The timeout and the abort signal of an attempt over the network. */
export interface AttemptOptions {
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Aborts the attempt, whose promise then rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/** The results of a pod's probes by container id. A result is undefined before the first attempt that decides it. */
export interface ProbeResults {
  liveness(id: string): boolean | undefined;
  startup(id: string): boolean | undefined;
}

export const succeeded = (output = ''): ProbeAttemptResult => ({ result: 'success', output });
export const warned = (output: string): ProbeAttemptResult => ({ result: 'success', output, warning: true });
export const failed = (output: string): ProbeAttemptResult => ({ result: 'failure', output });
