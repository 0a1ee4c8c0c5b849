import type { Node } from '@oarlock/api/types/core-v1';
import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';
import { isEqual } from '../../pod-info/pod-changes.ts';

/** The properties of a node on which filters depend. Other updates of a node, such as heartbeats, cannot make a rejected pod schedulable. */
const properties = {
  labels: ({ metadata }: Node): unknown => metadata?.labels,
  taints: ({ spec }: Node): unknown => [spec?.taints, spec?.unschedulable],
  allocatable: ({ status }: Node): unknown => status?.allocatable,
  features: ({ status }: Node): unknown => status?.declaredFeatures,
} as const;
type Property = keyof typeof properties;

const anyNode = () => true;

/**
 * Returns the cluster event for an added node, or for an update of one of the given properties. With `helps`, the event applies only to nodes for
 * which `helps` is true after the update and was false before.
 */
export function nodeEvent(
  changed: readonly Property[],
  helps: (pod: Parameters<NonNullable<ClusterEventWithHint['queueingHint']>>[0], node: Node) => boolean = anyNode,
): ClusterEventWithHint {
  return {
    kind: 'Node',
    actions: ['added', 'updated'],
    queueingHint(pod, before, after) {
      const now = after as Node;
      if (!helps(pod, now)) return 'skip';
      if (before === undefined) return 'queue';
      const old = before as Node;
      if (changed.every((each) => isEqual(properties[each](old), properties[each](now)))) return 'skip';
      return helps === anyNode || !helps(pod, old) ? 'queue' : 'skip';
    },
  };
}
