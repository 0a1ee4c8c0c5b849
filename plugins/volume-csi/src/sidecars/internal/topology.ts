import type { Node, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSINode, StorageClass } from '@oarlock/api/types/storage-v1';
import type { Topology, TopologyRequirement } from '@oarlock/csi/csi-types';
import type { Lister } from '@oarlock/spi/client';
import type { CsiDriver } from '../../driver/csi-driver.ts';

export interface TopologySources {
  readonly nodes: Lister<Node>;
  readonly csiNodes: Lister<CSINode>;
}

/** Returns a text that is the same for equal topologies. */
export const topologyText = ({ segments }: Topology): string => JSON.stringify(Object.entries(segments).sort());

/** Returns the topology of a node for a driver; undefined if the driver is not on the node or has no topology. */
function topologyOf(nodeName: string, driver: string, { nodes, csiNodes }: TopologySources): Topology | undefined {
  const keys = csiNodes.get(nodeName)?.spec.drivers.find(({ name }) => name === driver)?.topologyKeys ?? [];
  const labels = nodes.get(nodeName)?.metadata?.labels ?? {};
  if (keys.length === 0 || keys.some((key) => labels[key] === undefined)) return undefined;
  return { segments: Object.fromEntries(keys.map((key) => [key, labels[key] ?? ''])) };
}

/** Returns the distinct topologies of all nodes that have the driver, keyed by their text. */
export function topologiesOf(driver: string, sources: TopologySources): ReadonlyMap<string, Topology> {
  const topologies = new Map<string, Topology>();
  for (const { metadata } of sources.csiNodes.list()) {
    const topology = topologyOf(metadata?.name ?? '', driver, sources);
    if (topology !== undefined) topologies.set(topologyText(topology), topology);
  }
  return topologies;
}

const allowed = ({ allowedTopologies = [] }: StorageClass, { segments }: Topology) =>
  allowedTopologies.length === 0 ||
  allowedTopologies.some(({ matchLabelExpressions = [] }) =>
    matchLabelExpressions.every(({ key, values }) => segments[key] === undefined || values.includes(segments[key])),
  );

/** What the accessibility requirement of a volume is computed from. */
export interface RequirementOfOptions {
  readonly storageClass: StorageClass;
  readonly selectedNode: string | undefined;
  readonly csiDriver: CsiDriver;
  readonly sources: TopologySources;
}

/**
 * Returns the topology requirement of a new volume: the topology of the pod's selected node is preferred, followed by any that the StorageClass
 * allows. A driver with a controller per node gets the topology of its own node. @throws Error if the StorageClass allows no topology
 */
export function requirementOf(
  { metadata }: PersistentVolumeClaim,
  { storageClass, selectedNode, csiDriver: { name, node, config }, sources }: RequirementOfOptions,
): TopologyRequirement | undefined {
  const own = node.accessibleTopology;
  if (own === undefined) return undefined;
  if (!config.central) return { requisite: [own], preferred: [own] };
  const requisite = [...topologiesOf(name, sources)]
    .filter(([, topology]) => allowed(storageClass, topology))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, topology]) => topology);
  if (requisite.length === 0) throw new Error('no topology key found on CSINode that the class allows');
  const selected = selectedNode === undefined ? undefined : topologyOf(selectedNode, name, sources);
  const first =
    selected === undefined
      ? hashToIndex(metadata?.uid ?? '', requisite.length)
      : requisite.findIndex((topology) => topologyText(topology) === topologyText(selected));
  if (first < 0) throw new Error(`the class does not allow volumes in the topology of node ${selectedNode}`);
  return { requisite, preferred: [...requisite.slice(first), ...requisite.slice(0, first)] };
}

/** Returns an index below `count` from the hash of the uid, which spreads volumes that may be anywhere. */
function hashToIndex(uid: string, count: number): number {
  let sum = 0;
  for (const character of uid) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return sum % count;
}
