import type { Clock } from '@oarlock/primitives/clock';

/** What every streaming session needs, whatever its protocol. */
export interface SessionOptions {
  /** aborts when the kubelet stops */
  readonly stopped: AbortSignal;
  readonly clock: Clock;
  /** Reports that the session transfers data, so that its idle timeout starts again. */
  active(): void;
}
