import { formatTime } from '@oarlock/api/time';
import type { Namespace, NamespaceCondition } from '@oarlock/api/types/core-v1';

/** What keeps a namespace from going. */
export interface Remains {
  /** How many objects are left, by kind. */
  readonly left: ReadonlyMap<string, number>;
  /** How many of them each finalizer holds. */
  readonly finalizers: ReadonlyMap<string, number>;
  /** What could not be deleted, and why. */
  readonly failures: readonly string[];
  /** Groups and versions that do not say what they have. */
  readonly undiscovered: readonly string[];
}

const count = (map: ReadonlyMap<string, number>, words: (key: string, n: number) => string) =>
  [...map]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, n]) => words(key, n))
    .join(', ');

/** The five conditions by which upstream tells what holds a namespace; the present list itself when nothing changed. */
export function conditionsOf(
  { status }: Namespace,
  { left, finalizers, failures, undiscovered }: Remains,
  nowMs: number,
): readonly NamespaceCondition[] | undefined {
  const wanted: readonly { type: string; bad: boolean; badReason: string; goodReason: string; badMessage: string; goodMessage: string }[] =
    [
      {
        type: 'NamespaceDeletionDiscoveryFailure',
        bad: undiscovered.length > 0,
        badReason: 'DiscoveryFailed',
        goodReason: 'ResourcesDiscovered',
        badMessage: `Discovery failed for some groups, ${undiscovered.length} failing: unable to retrieve the complete list of server APIs: ${undiscovered.map((each) => `${each}: stale GroupVersion discovery: ${each}`).join(', ')}`,
        goodMessage: 'All resources successfully discovered',
      },
      {
        type: 'NamespaceDeletionGroupVersionParsingFailure',
        bad: false,
        badReason: 'GroupVersionParsingFailed',
        goodReason: 'ParsedGroupVersions',
        badMessage: '',
        goodMessage: 'All legacy kube types successfully parsed',
      },
      {
        type: 'NamespaceDeletionContentFailure',
        bad: failures.length > 0,
        badReason: 'ContentDeletionFailed',
        goodReason: 'ContentDeleted',
        badMessage: `Failed to delete all resource types, ${failures.length} remaining: ${failures.join(', ')}`,
        goodMessage: 'All content successfully deleted, may be waiting on finalization',
      },
      {
        type: 'NamespaceContentRemaining',
        bad: left.size > 0,
        badReason: 'SomeResourcesRemain',
        goodReason: 'ContentRemoved',
        badMessage: `Some resources are remaining: ${count(left, (key, n) => `${key} has ${n} resource instances`)}`,
        goodMessage: 'All content successfully removed',
      },
      {
        type: 'NamespaceFinalizersRemaining',
        bad: finalizers.size > 0,
        badReason: 'SomeFinalizersRemain',
        goodReason: 'ContentHasNoFinalizers',
        badMessage: `Some content in the namespace has finalizers remaining: ${count(finalizers, (key, n) => `${key} in ${n} resource instances`)}`,
        goodMessage: 'All content-preserving finalizers finished',
      },
    ];
  let changed = false;
  const conditions = wanted.map(({ type, bad, badReason, goodReason, badMessage, goodMessage }): NamespaceCondition => {
    const old = status?.conditions?.find((condition) => condition.type === type);
    const next = { type, status: bad ? 'True' : 'False', reason: bad ? badReason : goodReason, message: bad ? badMessage : goodMessage };
    if (old !== undefined && old.status === next.status && old.reason === next.reason && old.message === next.message) return old;
    changed = true;
    return {
      ...next,
      lastTransitionTime: old?.status === next.status && old.lastTransitionTime ? old.lastTransitionTime : formatTime(nowMs),
    };
  });
  return changed ? conditions : status?.conditions;
}
