import type { History, ListRecord, Operation, WatchHistory, WatchRecord } from './history.ts';

type Change = Extract<WatchRecord, { readonly key: string }>;
/** All changes that any client saw, by revision. One revision changes one object of the history's resource. */
export type Changes = ReadonlyMap<number, Change>;

/**
 * Returns the changes that clients saw, by revision: those of all watches, and the writes whose value a read returned. When the only server is killed,
 * every watcher may have to list again, so that no watch has the last writes. For a revision the first watch counts, which is the store's; differences
 * are violations, which `checkWatches` reports.
 */
export function changesOf({ watches, lists, operations }: History): Changes {
  const changes = new Map<number, Change>();
  const add = (change: Change) => {
    if (!changes.has(change.revision)) changes.set(change.revision, change);
  };
  for (const { records } of watches) for (const record of records) if ('key' in record) add(record);
  const writes = new Map(
    operations.flatMap((operation) => ('value' in operation.input ? [[operation.input.value, operation] as const] : [])),
  );
  const addRead = (key: string, { revision, value }: { readonly revision: number; readonly value: string }) => {
    const write = writes.get(value);
    // a read proves only what a client wrote, at the revision that the answer to the write had
    const isProof =
      write?.key === key && (write.output.result === 'unknown' || (write.output.result === 'ok' && write.output.revision === revision));
    if (isProof) add({ type: 'MODIFIED', key, revision, value });
  };
  for (const { items } of lists) for (const [key, item] of items) addRead(key, item);
  for (const { key, input, output } of operations)
    if (input.verb === 'get' && output.result === 'ok' && output.revision !== undefined && output.value !== undefined)
      addRead(key, { revision: output.revision, value: output.value });
  return new Map([...changes].sort(([a], [b]) => a - b));
}

/**
 * Returns the operations with the outcomes that the changes prove: a create or update without an answer whose value a client saw took effect at the
 * revision of the change. If no client saw its value, it had no effect that matters.
 */
export function withOutcomes(operations: readonly Operation[], changes: Changes): readonly Operation[] {
  const revisions = new Map([...changes.values()].filter(({ type }) => type !== 'DELETED').map(({ value, revision }) => [value, revision]));
  return operations.map((operation) => {
    const { input, output } = operation;
    if (output.result !== 'unknown' || !('value' in input)) return operation;
    const revision = revisions.get(input.value);
    return revision === undefined ? operation : { ...operation, output: { result: 'ok' as const, revision } };
  });
}

/**
 * Checks the guarantees of watches (those of etcd's robustness tests) and returns one sentence for each violation:
 *
 * - ordered: revisions increase within a watcher, also across resumed requests;
 * - unique: no event is received twice;
 * - reliable: between the first and the last revision of a request no change is missing;
 * - atomic: all watchers receive the same change for a revision;
 * - resumable: a request receives only events after its revision, and all of them;
 * - bookmarkable: after a bookmark no event up to the bookmark's revision follows.
 */
export function checkWatches(watches: readonly WatchHistory[], changes: Changes): readonly string[] {
  return watches.flatMap((watch) => checkWatch(watch, changes));
}

function checkWatch({ watcher, records }: WatchHistory, changes: Changes): readonly string[] {
  const violations: string[] = [];
  const seen = new Set<number>();
  const revisions = [...changes.keys()];
  let last = -1;
  for (const record of records) {
    if (record.type === 'request') {
      last = record.revision;
      continue;
    }
    if (record.type === 'BOOKMARK') {
      if (record.revision < last) violations.push(`${watcher}: the bookmark ${record.revision} came after revision ${last}`);
      violations.push(...missing(watcher, revisions, { after: last, before: record.revision + 1 }));
      last = Math.max(last, record.revision);
      continue;
    }
    const { revision, key } = record;
    if (seen.has(revision)) violations.push(`${watcher}: the event of ${key} at ${revision} came twice`);
    else if (revision <= last) violations.push(`${watcher}: the event of ${key} at ${revision} came after revision ${last}`);
    else violations.push(...missing(watcher, revisions, { after: last, before: revision }));
    const common = changes.get(revision);
    if (common !== undefined && !same(common, record))
      violations.push(`${watcher}: the event at ${revision} is ${describe(record)}, another watcher received ${describe(common)}`);
    seen.add(revision);
    last = Math.max(last, revision);
  }
  return violations;
}

/** Returns the changes between two revisions that the watcher did not receive. */
function missing(
  watcher: string,
  revisions: readonly number[],
  { after, before }: { readonly after: number; readonly before: number },
): readonly string[] {
  return revisions
    .filter((revision) => revision > after && revision < before)
    .map((revision) => `${watcher}: the event at ${revision} is missing`);
}

const same = (a: Change, b: Change) => a.type === b.type && a.key === b.key && a.value === b.value;
const describe = ({ type, key, value }: Change) => `${type} ${key} ${value}`;

/** Returns the acknowledged creates and updates that no client saw and no later write replaced; each is a lost write. */
export function lostWrites(operations: readonly Operation[], changes: Changes): readonly string[] {
  const replaced = new Set(
    operations.flatMap(({ key, input, output }) =>
      output.result === 'ok' && 'ifRevision' in input && input.ifRevision !== undefined ? [`${key} ${input.ifRevision}`] : [],
    ),
  );
  return operations.flatMap(({ key, input, output }) => {
    if (!('value' in input) || output.result !== 'ok' || replaced.has(`${key} ${output.revision}`)) return [];
    const change = changes.get(output.revision ?? -1);
    return change?.value === input.value && change.key === key
      ? []
      : [`${input.verb} of ${key} to ${input.value} at ${output.revision} is lost`];
  });
}

/**
 * Checks lists without a resourceVersion: each contains exactly the state at its revision, which is not older than a write that was acknowledged
 * before the call.
 */
export function checkLists({ lists, operations }: Pick<History, 'lists' | 'operations'>, changes: Changes): readonly string[] {
  const deletes = new Set(
    operations.flatMap((operation) => (mayDelete(operation) ? [`${operation.key} ${operation.input.ifRevision}`] : [])),
  );
  return lists.flatMap((list) => [...checkState(list, changes, deletes), ...checkAge(list, operations)]);
}

/** Returns true for a delete that took effect or may have: no watcher received its event if all of them had to list again. */
const mayDelete = (operation: Operation): operation is Operation & { readonly input: { readonly ifRevision?: number } } =>
  operation.input.verb === 'delete' && (operation.output.result === 'ok' || operation.output.result === 'unknown');

function checkState({ revision, items }: ListRecord, changes: Changes, deletes: ReadonlySet<string>): readonly string[] {
  const state = new Map<string, Change>();
  for (const change of changes.values()) {
    if (change.revision > revision) break;
    if (change.type === 'DELETED') state.delete(change.key);
    else state.set(change.key, change);
  }
  const keys = new Set([...state.keys(), ...items.keys()]);
  return [...keys].flatMap((key) => {
    const [wanted, got] = [state.get(key), items.get(key)];
    const isDeleted = got === undefined && deletes.has(`${key} ${wanted?.revision}`);
    return isDeleted || (wanted?.value === got?.value && wanted?.revision === got?.revision)
      ? []
      : [`the list at ${revision} has ${key} ${got?.value ?? 'absent'} instead of ${wanted?.value ?? 'absent'}`];
  });
}

function checkAge({ calledAt, revision }: ListRecord, operations: readonly Operation[]): readonly string[] {
  const stale = operations.find(
    ({ returnedAt, output }) =>
      returnedAt < calledAt && output.result === 'ok' && output.revision !== undefined && output.revision > revision,
  );
  return stale === undefined
    ? []
    : [`the list at ${revision} is older than the ${stale.input.verb} of ${stale.key}, which was acknowledged before its call`];
}
