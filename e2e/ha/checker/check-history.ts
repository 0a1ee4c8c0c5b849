import type { History } from './history.ts';
import { checkLinearizability } from './linearizability.ts';
import { changesOf, checkLists, checkWatches, lostWrites, withOutcomes } from './watch-guarantees.ts';

export interface CheckedHistory {
  readonly acknowledgedWrites: number;
  readonly unansweredWrites: number;
  readonly changes: number;
  readonly lost: readonly string[];
  readonly violations: readonly string[];
}

/** Checks writes and reads for linearizability, and lists and watches for their guarantees. */
export function checkHistory(history: History): CheckedHistory {
  const { operations: recorded, watches, lists } = history;
  const changes = changesOf(history);
  const operations = withOutcomes(recorded, changes);
  const unordered = checkLinearizability(operations).map(
    ({ key, unexplained }) => `${key} is not linearizable: ${JSON.stringify(unexplained.slice(0, 3))}`,
  );
  const isWrite = ({ input }: (typeof recorded)[number]) => input.verb !== 'get';
  return {
    acknowledgedWrites: recorded.filter((operation) => isWrite(operation) && operation.output.result === 'ok').length,
    unansweredWrites: recorded.filter((operation) => isWrite(operation) && operation.output.result === 'unknown').length,
    changes: changes.size,
    lost: lostWrites(operations, changes),
    violations: [...unordered, ...checkWatches(watches, changes), ...checkLists({ lists, operations }, changes)],
  };
}
