import type { Node } from '@oarlock/api/types/core-v1';
import type { RequeueOn } from '@oarlock/spi/scheduling';
import { same } from '../pod-changes.ts';

/** What of a node filters go by. Anything else of it, such as its heartbeat, helps nobody. */
const properties = {
  labels: ({ metadata }: Node): unknown => metadata?.labels,
  taints: ({ spec }: Node): unknown => [spec?.taints, spec?.unschedulable],
  allocatable: ({ status }: Node): unknown => status?.allocatable,
  features: ({ status }: Node): unknown => status?.declaredFeatures,
} as const;
type Property = keyof typeof properties;

const everyNode = () => true;

/** A node that comes, or changes in one of the properties; with `helps`, only one that does so now and did not before. */
export function onNode(
  changed: readonly Property[],
  helps: (pod: Parameters<NonNullable<RequeueOn['hint']>>[0], node: Node) => boolean = everyNode,
): RequeueOn {
  return {
    kind: 'Node',
    on: ['added', 'updated'],
    hint(pod, before, after) {
      const now = after as Node;
      if (!helps(pod, now)) return 'skip';
      if (before === undefined) return 'queue';
      const old = before as Node;
      if (changed.every((each) => same(properties[each](old), properties[each](now)))) return 'skip';
      return helps === everyNode || !helps(pod, old) ? 'queue' : 'skip';
    },
  };
}
