import type { Node, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSINode, StorageClass } from '@oarlock/api/types/storage-v1';
import type { Topology, TopologyRequirement } from '@oarlock/csi/csi-types';
import type { Lister } from '@oarlock/spi/client';
import type { CsiDriver } from './csi-driver.ts';

export interface TopologySources {
  readonly nodes: Lister<Node>;
  readonly csiNodes: Lister<CSINode>;
}

const text = ({ segments }: Topology) => JSON.stringify(Object.entries(segments).sort());

/** Where a node is, in the words of a driver; undefined: the driver is not there, or has no words for it. */
function placeOf(nodeName: string, driver: string, { nodes, csiNodes }: TopologySources): Topology | undefined {
  const keys = csiNodes.get(nodeName)?.spec.drivers.find(({ name }) => name === driver)?.topologyKeys ?? [];
  const labels = nodes.get(nodeName)?.metadata?.labels ?? {};
  if (keys.length === 0 || keys.some((key) => labels[key] === undefined)) return undefined;
  return { segments: Object.fromEntries(keys.map((key) => [key, labels[key] ?? ''])) };
}

const allowed = ({ allowedTopologies = [] }: StorageClass, { segments }: Topology) =>
  allowedTopologies.length === 0 ||
  allowedTopologies.some(({ matchLabelExpressions = [] }) =>
    matchLabelExpressions.every(({ key, values }) => segments[key] === undefined || values.includes(segments[key])),
  );

/**
 * Where a new volume may be: near the node that was chosen for its pod first, else anywhere that the class allows. A driver that serves its own
 * node alone is asked for that. @throws Error when the class allows no place
 */
export function requirementOf(
  { metadata }: PersistentVolumeClaim,
  storageClass: StorageClass,
  selectedNode: string | undefined,
  { name, node, config }: CsiDriver,
  sources: TopologySources,
): TopologyRequirement | undefined {
  const own = node.accessibleTopology;
  if (own === undefined) return undefined;
  if (!config.central) return { requisite: [own], preferred: [own] };
  const places = new Map<string, Topology>();
  for (const { metadata: of } of sources.csiNodes.list()) {
    const place = placeOf(of?.name ?? '', name, sources);
    if (place !== undefined && allowed(storageClass, place)) places.set(text(place), place);
  }
  const requisite = [...places.entries()].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, place]) => place);
  if (requisite.length === 0) throw new Error('no topology key found on CSINode that the class allows');
  const selected = selectedNode === undefined ? undefined : placeOf(selectedNode, name, sources);
  const first =
    selected === undefined ? seatOf(metadata?.uid ?? '', requisite.length) : requisite.findIndex((place) => text(place) === text(selected));
  if (first < 0) throw new Error(`the class does not allow volumes where node ${selectedNode} is`);
  return { requisite, preferred: [...requisite.slice(first), ...requisite.slice(0, first)] };
}

/** Volumes that may be anywhere are spread. */
function seatOf(uid: string, seats: number): number {
  let sum = 0;
  for (const character of uid) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return sum % seats;
}
