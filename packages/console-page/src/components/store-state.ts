import type { ConnectionState } from '../api/watch.ts';
import { text } from '../text/en.ts';

/** What a view shows of a store besides its objects. */
export interface StoreState {
  readonly state: ConnectionState;
  /** The reason of the state `reconnecting` or `stopped`. */
  readonly reason: string;
  /** True when the first list is complete. */
  readonly hasSynced: boolean;
}

/** From the state that a user must know first. */
const order: readonly ConnectionState[] = ['stopped', 'reconnecting', 'connecting', 'live'];

/** Returns the state that a view shows for all stores from which it is made. */
export const stateOfAll = ([first, ...others]: readonly [StoreState, ...StoreState[]]): StoreState =>
  others.reduce((worst, each) => (order.indexOf(each.state) < order.indexOf(worst.state) ? each : worst), first);

/** Returns what a view shows in place of objects: that they may not be read, that they load, or `none` if there are none. */
export function absenceText(stores: readonly StoreState[], none: string): string {
  const missing = stores.filter(({ hasSynced }) => !hasSynced);
  if (missing.length === 0) return none;
  return missing.some(({ state }) => state === 'stopped') ? text.connection.stopped : text.connection.connecting;
}
