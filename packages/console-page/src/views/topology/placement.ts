import { compareText } from '../../components/compare-text.ts';
import { quantity } from '../../components/quantity.ts';
import type { Pod } from '../object/workload-kinds.ts';
import type { Node } from '../overview/nodes.ts';

export interface NodePlacement {
  readonly node: Node;
  readonly pods: readonly Pod[];
  /** The sum of the requests of the pods on the node, and what the node can allocate, in cores and bytes. */
  readonly requested: Resources;
  readonly allocatable: Resources;
}
export interface Resources {
  readonly cpu: number;
  readonly memory: number;
}
export interface Zone {
  readonly name: string;
  readonly nodes: readonly NodePlacement[];
}
export interface Topology {
  /** By name. Nodes without a zone are in a zone without a name. */
  readonly zones: readonly Zone[];
  /** Pods without a node. */
  readonly pending: readonly Pod[];
}

const zoneLabel = 'topology.kubernetes.io/zone';

const isTerminal = ({ status }: Pod): boolean => status?.phase === 'Succeeded' || status?.phase === 'Failed';
const byName = (a: { readonly metadata: { readonly name: string } }, b: { readonly metadata: { readonly name: string } }): number =>
  compareText(a.metadata.name, b.metadata.name);

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** Returns where the pods run, by zone and node. Terminal pods use no resources and are left out. */
export function topologyOf(nodes: readonly Node[], pods: readonly Pod[]): Topology {
  const active = pods.filter((pod) => !isTerminal(pod));
  const onNode = groupBy(active, ({ spec }) => spec?.nodeName ?? '');
  const inZone = groupBy(nodes.toSorted(byName), ({ metadata }) => metadata.labels?.[zoneLabel] ?? '');
  return {
    zones: [...inZone.entries()]
      .toSorted(([a], [b]) => compareText(a, b))
      .map(([name, members]) => ({ name, nodes: members.map((node) => placementOf(node, onNode.get(node.metadata.name) ?? [])) })),
    pending: (onNode.get('') ?? []).toSorted(byName),
  };
}

function placementOf(node: Node, pods: readonly Pod[]): NodePlacement {
  const sum = (name: string): number =>
    pods.reduce(
      (total, { spec }) =>
        total + (spec?.containers ?? []).reduce((subtotal, { resources }) => subtotal + quantity(resources?.requests?.[name]), 0),
      0,
    );
  const { allocatable = {} } = node.status ?? {};
  return {
    node,
    pods: pods.toSorted(byName),
    requested: { cpu: sum('cpu'), memory: sum('memory') },
    allocatable: { cpu: quantity(allocatable['cpu']), memory: quantity(allocatable['memory']) },
  };
}
