import type { Operation } from './history.ts';
import { step, type ObjectState } from './object-model.ts';

/** A key whose operations have no order that explains their outputs and respects real time. */
export interface LinearizabilityViolation {
  readonly key: string;
  /** The operations that the longest explained prefix leaves out, the earliest first; at most ten. */
  readonly unexplained: readonly Operation[];
}

/** Returns the keys whose operations are not linearizable. Keys are checked one by one (P-compositionality: objects are independent). */
export function checkLinearizability(operations: readonly Operation[]): readonly LinearizabilityViolation[] {
  const byKey = new Map<string, Operation[]>();
  for (const operation of operations) {
    const own = byKey.get(operation.key);
    if (own === undefined) byKey.set(operation.key, [operation]);
    else own.push(operation);
  }
  return [...byKey].flatMap(([key, own]) => {
    const unexplained = findUnexplained(own);
    return unexplained === undefined ? [] : [{ key, unexplained }];
  });
}

/** The call or the return of an operation in a doubly linked list, which is ordered by time. */
interface Entry {
  readonly operation: number;
  readonly isCall: boolean;
  /** The entry of the return, at a call. */
  match: Entry | undefined;
  previous: Entry | undefined;
  next: Entry | undefined;
}

/**
 * The algorithm of Wing and Gong with the memoization of Lowe, as in Porcupine: takes the next call whose output is possible in the current state,
 * backtracks at a return that has not been linearized, and skips combinations of linearized operations and state that were tried. The state is a set of
 * states, because the outcome of an operation may be unknown.
 */
function findUnexplained(operations: readonly Operation[]): readonly Operation[] | undefined {
  const head = linkedEntries(operations);
  const tried = new Set<string>();
  const stack: { readonly entry: Entry; readonly states: readonly ObjectState[] }[] = [];
  let states: readonly ObjectState[] = [undefined];
  let linearized = 0n;
  let longest = 0n;
  let longestCount = -1;
  let entry = head.next;
  while (entry !== undefined) {
    if (entry.isCall) {
      const operation = operations[entry.operation];
      const next = operation === undefined ? [] : stepAll(states, operation);
      const mask = linearized | (1n << BigInt(entry.operation));
      const key = `${mask.toString(36)} ${JSON.stringify(next)}`;
      if (next.length > 0 && !tried.has(key)) {
        tried.add(key);
        stack.push({ entry, states });
        [states, linearized] = [next, mask];
        lift(entry);
        entry = head.next;
      } else entry = entry.next;
      continue;
    }
    if (stack.length > longestCount) [longest, longestCount] = [linearized, stack.length];
    const last = stack.pop();
    if (last === undefined) return operations.filter((_, index) => (longest & (1n << BigInt(index))) === 0n).slice(0, 10);
    states = last.states;
    linearized &= ~(1n << BigInt(last.entry.operation));
    unlift(last.entry);
    entry = last.entry.next;
  }
  return undefined;
}

function stepAll(states: readonly ObjectState[], operation: Operation): readonly ObjectState[] {
  const next = new Map<string, ObjectState>();
  for (const state of states) for (const after of step(state, operation)) next.set(JSON.stringify(after) ?? '', after);
  return [...next].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, state]) => state);
}

/** Returns the head of the list of calls and returns. At equal times calls come first, because the operations then overlap. */
function linkedEntries(operations: readonly Operation[]): Entry {
  const entries: { readonly at: number; readonly entry: Entry }[] = [];
  for (const [operation, { calledAt, returnedAt }] of operations.entries()) {
    const end: Entry = { operation, isCall: false, match: undefined, previous: undefined, next: undefined };
    entries.push(
      { at: calledAt, entry: { operation, isCall: true, match: end, previous: undefined, next: undefined } },
      { at: returnedAt, entry: end },
    );
  }
  entries.sort((a, b) => (a.at === b.at ? Number(b.entry.isCall) - Number(a.entry.isCall) : a.at - b.at));
  const head: Entry = { operation: -1, isCall: false, match: undefined, previous: undefined, next: undefined };
  let last = head;
  for (const { entry } of entries) {
    last.next = entry;
    entry.previous = last;
    last = entry;
  }
  return head;
}

/** Removes a call and its return from the list; the removed entries keep their neighbors for `unlift`. */
function lift(call: Entry): void {
  for (const entry of [call, call.match]) {
    if (entry?.previous !== undefined) entry.previous.next = entry.next;
    if (entry?.next !== undefined) entry.next.previous = entry.previous;
  }
}

function unlift(call: Entry): void {
  for (const entry of [call.match, call]) {
    if (entry?.previous !== undefined) entry.previous.next = entry;
    if (entry?.next !== undefined) entry.next.previous = entry;
  }
}
