import type { Status } from '@oarlock/spi/scheduling';

/** The extension points as upstream's metrics name them. */
export type ObservedExtensionPoint =
  | 'PreFilter'
  | 'Filter'
  | 'PostFilter'
  | 'PreScore'
  | 'Score'
  | 'Reserve'
  | 'Unreserve'
  | 'Permit'
  | 'PreBind'
  | 'Bind'
  | 'PostBind';

/** Receives the duration and the status of each extension point of a scheduling or binding cycle. */
export interface ExtensionPointObserver {
  /** Returns the time on the monotonic clock, in milliseconds. */
  now(): number;
  /** @param startedAt the time at which the first plugin of the extension point was called, in milliseconds on the monotonic clock */
  observe(point: ObservedExtensionPoint, code: Status['code'], startedAt: number): void;
}

/** For cycles without metrics, for example those that explain a pod. */
export const noObserver: ExtensionPointObserver = { now: () => 0, observe: () => undefined };
