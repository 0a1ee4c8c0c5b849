import type { Node } from '@oarlock/api/types/core-v1';
import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';
import { isEqual } from '../../pod-info/pod-changes.ts';

/** The properties of a node that filters depend on. Other updates, such as heartbeats, do not help a rejected pod. */
const properties = {
  labels: ({ metadata }: Node): unknown => metadata?.labels,
  taints: ({ spec }: Node): unknown => [spec?.taints, spec?.unschedulable],
  allocatable: ({ status }: Node): unknown => status?.allocatable,
  features: ({ status }: Node): unknown => status?.declaredFeatures,
} as const;
type Property = keyof typeof properties;

const anyNode = () => true;

/** Returns the event of an added node, or of an update of one of the properties. With `helps`: only if it holds now and did not before. */
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
