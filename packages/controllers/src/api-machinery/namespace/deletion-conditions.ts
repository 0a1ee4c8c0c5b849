import { formatTime } from '@oarlock/api/values/time';
import type { Namespace, NamespaceCondition } from '@oarlock/api/types/core-v1';

/** Content that prevents the deletion of a namespace. */
export interface RemainingContent {
  /** Number of remaining objects, keyed by `RESOURCE.GROUP`; the group of core resources is empty, as upstream. */
  readonly objects: ReadonlyMap<string, number>;
  /** Number of remaining objects, keyed by finalizer. */
  readonly finalizers: ReadonlyMap<string, number>;
  /** Resources that could not be deleted, each with the error message. */
  readonly failures: readonly string[];
  /** Group versions whose discovery fails. */
  readonly undiscovered: readonly string[];
}

interface DeletionCondition {
  readonly type: string;
  /** True if the condition reports a problem. */
  readonly failed: boolean;
  readonly failureReason: string;
  readonly successReason: string;
  readonly failureMessage: string;
  readonly successMessage: string;
}

const formatCounts = (counts: ReadonlyMap<string, number>, format: (key: string, count: number) => string) =>
  [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, count]) => format(key, count))
    .join(', ');

/** Returns the five conditions of namespace deletion, with upstream's reasons and messages. */
function deletionConditions({ objects, finalizers, failures, undiscovered }: RemainingContent): readonly DeletionCondition[] {
  return [
    {
      type: 'NamespaceDeletionDiscoveryFailure',
      failed: undiscovered.length > 0,
      failureReason: 'DiscoveryFailed',
      successReason: 'ResourcesDiscovered',
      failureMessage: `Discovery failed for some groups, ${undiscovered.length} failing: unable to retrieve the complete list of server APIs: ${undiscovered.map((each) => `${each}: stale GroupVersion discovery: ${each}`).join(', ')}`,
      successMessage: 'All resources successfully discovered',
    },
    {
      type: 'NamespaceDeletionGroupVersionParsingFailure',
      failed: false,
      failureReason: 'GroupVersionParsingFailed',
      successReason: 'ParsedGroupVersions',
      failureMessage: '',
      successMessage: 'All legacy kube types successfully parsed',
    },
    {
      type: 'NamespaceDeletionContentFailure',
      failed: failures.length > 0,
      failureReason: 'ContentDeletionFailed',
      successReason: 'ContentDeleted',
      failureMessage: `Failed to delete all resource types, ${failures.length} remaining: ${failures.join(', ')}`,
      successMessage: 'All content successfully deleted, may be waiting on finalization',
    },
    {
      type: 'NamespaceContentRemaining',
      failed: objects.size > 0,
      failureReason: 'SomeResourcesRemain',
      successReason: 'ContentRemoved',
      failureMessage: `Some resources are remaining: ${formatCounts(objects, (key, count) => `${key} has ${count} resource instances`)}`,
      successMessage: 'All content successfully removed',
    },
    {
      type: 'NamespaceFinalizersRemaining',
      failed: finalizers.size > 0,
      failureReason: 'SomeFinalizersRemain',
      successReason: 'ContentHasNoFinalizers',
      failureMessage: `Some content in the namespace has finalizers remaining: ${formatCounts(finalizers, (key, count) => `${key} in ${count} resource instances`)}`,
      successMessage: 'All content-preserving finalizers finished',
    },
  ];
}

/**
 * Returns the conditions for the status of a namespace: those of other clients first, then the deletion conditions with their new values. Returns the
 * existing list if no deletion condition changed.
 */
export function updateDeletionConditions(
  { status }: Namespace,
  remaining: RemainingContent,
  nowMs: number,
): readonly NamespaceCondition[] | undefined {
  let changed = false;
  const conditions = deletionConditions(remaining).map((condition): NamespaceCondition => {
    const { type, failed } = condition;
    const old = status?.conditions?.find((each) => each.type === type);
    const next = {
      type,
      status: failed ? 'True' : 'False',
      reason: failed ? condition.failureReason : condition.successReason,
      message: failed ? condition.failureMessage : condition.successMessage,
    };
    if (old !== undefined && old.status === next.status && old.reason === next.reason && old.message === next.message) return old;
    changed = true;
    return {
      ...next,
      lastTransitionTime: old?.status === next.status && old.lastTransitionTime ? old.lastTransitionTime : formatTime(nowMs),
    };
  });
  const others = (status?.conditions ?? []).filter(({ type }) => !conditions.some((each) => each.type === type));
  return changed ? [...others, ...conditions] : status?.conditions;
}
