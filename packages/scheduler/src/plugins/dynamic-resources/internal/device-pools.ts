import { matchesNodeSelector } from '@oarlock/api/component-helpers/node-affinity';
import { currentSlices } from '@oarlock/api/component-helpers/resource-slices';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Counter, Device, ResourceSlice } from '@oarlock/api/types/resource-v1';

/** A device that a node can access. */
export interface PoolDevice {
  readonly id: string;
  readonly driver: string;
  readonly pool: string;
  readonly device: Device;
  /** The nodes that can access the device, from the ResourceSlice or from the device. */
  readonly location: Pick<Device, 'nodeName' | 'nodeSelector' | 'allNodes'>;
  readonly counters: ReadonlyMap<string, Readonly<Record<string, Counter>>>;
}

export interface DevicePool {
  readonly driver: string;
  readonly name: string;
  readonly devices: readonly PoolDevice[];
  /** True if slices of the pool are missing, because the driver is updating it. An incomplete pool lists no devices. */
  readonly incomplete: boolean;
  /** The reason why no device of the pool can be allocated; undefined if the pool is valid. An invalid pool lists no devices. */
  readonly invalid: string | undefined;
  /** All devices of the pool that consume shared counters, on any node that the pool needs to be complete. */
  readonly consumers: readonly (readonly [id: string, device: Device])[];
}

export const deviceId = (driver: string, pool: string, device: string): string => `${driver}/${pool}/${device}`;

const matchesNode = ({ nodeName, nodeSelector, allNodes }: PoolDevice['location'], node: Node): boolean =>
  allNodes === true ||
  (nodeName !== undefined && nodeName !== ''
    ? nodeName === node.metadata?.name
    : nodeSelector !== undefined && matchesNodeSelector(nodeSelector, node));

/** The ResourceSlices of all generations that name one pool. */
interface PoolSlices {
  readonly driver: string;
  readonly name: string;
  readonly slices: ResourceSlice[];
}

const sliceName = ({ metadata }: ResourceSlice) => metadata?.name ?? '';
const compareText = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);

/** The device pools of the cluster, indexed by node. */
export class DevicePools {
  readonly #byNode = new Map<string, Set<PoolSlices>>();
  /** Pools with slices that are not local to one node. */
  readonly #shared = new Set<PoolSlices>();

  constructor(slices: readonly ResourceSlice[]) {
    const pools = new Map<string, PoolSlices>();
    for (const slice of [...slices].sort((a, b) => compareText(sliceName(a), sliceName(b)))) {
      const { driver, pool: identity, nodeName } = slice.spec;
      const key = `${driver}/${identity.name}`;
      const pool = pools.get(key) ?? { driver, name: identity.name, slices: [] };
      pools.set(key, pool);
      pool.slices.push(slice);
      if (!nodeName) this.#shared.add(pool);
      else if (this.#byNode.has(nodeName)) this.#byNode.get(nodeName)?.add(pool);
      else this.#byNode.set(nodeName, new Set([pool]));
    }
  }

  /** Returns the pools with devices that a node can access. Pools with binding conditions are last (KEP-5007). */
  poolsForNode(node: Node): readonly DevicePool[] {
    return [...new Set([...(this.#byNode.get(node.metadata?.name ?? '') ?? []), ...this.#shared])]
      .flatMap((pool) => poolForNode(pool, node) ?? [])
      .sort(
        (a, b) => Number(hasConditions(a)) - Number(hasConditions(b)) || compareText(a.driver, b.driver) || compareText(a.name, b.name),
      );
  }
}
const hasConditions = ({ devices }: DevicePool) => devices.some(({ device }) => (device.bindingConditions?.length ?? 0) > 0);

const matchesAnyDevice = ({ spec }: ResourceSlice, node: Node): boolean =>
  spec.perDeviceNodeSelection === true ? (spec.devices ?? []).some((device) => matchesNode(device, node)) : matchesNode(spec, node);
const hasCounters = ({ spec }: ResourceSlice) => (spec.sharedCounters?.length ?? 0) > 0;
/** Returns true for slices with devices of a node, and for counters that such devices can consume. */
const concernsNode = (slice: ResourceSlice, node: Node): boolean =>
  matchesAnyDevice(slice, node) || (hasCounters(slice) && !slice.spec.nodeName);

/**
 * Returns what a node can access of a pool, or undefined if that is nothing.
 *
 * Only slices that concern the node determine the generation ({@link currentSlices}). Slices of other nodes count if the node's own slices are not the
 * whole pool (`GatherPools` of k8s.io/dynamic-resource-allocation). Unlike there, counters that are local to another node do not raise the generation.
 */
function poolForNode({ driver, name, slices }: PoolSlices, node: Node): DevicePool | undefined {
  const concerning = slices.filter((slice) => concernsNode(slice, node));
  if (concerning.length === 0) return undefined;
  const own = currentSlices(concerning);
  const { generation = 0, resourceSliceCount: expectedSlices } = own[0]?.spec.pool ?? {};
  const isWhole = own.length === expectedSlices;
  if (!isWhole && slices.some(({ spec }) => spec.pool.generation > generation)) return undefined;
  const all = isWhole ? own : slices.filter(({ spec }) => spec.pool.generation === generation);
  const unusable = { driver, name, devices: [], incomplete: all.length !== expectedSlices, invalid: undefined, consumers: [] };
  if (unusable.incomplete) return unusable;
  const invalid = whyInvalid(own, all);
  return invalid === undefined ? validPool({ driver, name, own, all }, node) : { ...unusable, invalid };
}

/** Returns why devices of a pool must not be allocated: duplicate names, or counters that the pool lacks. */
function whyInvalid(own: readonly ResourceSlice[], all: readonly ResourceSlice[]): string | undefined {
  const deviceNames = new Set<string>();
  for (const { name } of own.flatMap(({ spec }) => spec.devices ?? [])) {
    if (deviceNames.has(name)) return `duplicate device name ${name}`;
    deviceNames.add(name);
  }
  const sets = new Map<string, Readonly<Record<string, Counter>>>();
  for (const { name, counters } of all.flatMap(({ spec }) => spec.sharedCounters ?? [])) {
    if (sets.has(name)) return `duplicate counter set name ${name}`;
    sets.set(name, counters);
  }
  for (const { counterSet, counters } of all.flatMap(({ spec }) => spec.devices ?? []).flatMap((device) => device.consumesCounters ?? [])) {
    const set = sets.get(counterSet);
    if (set === undefined) return `counter set ${counterSet} not found`;
    const unknown = Object.keys(counters).find((counter) => !Object.hasOwn(set, counter));
    if (unknown !== undefined) return `counter ${unknown} not found in counter set ${counterSet}`;
  }
  return undefined;
}

function validPool(
  { driver, name, own, all }: Pick<PoolSlices, 'driver' | 'name'> & Readonly<Record<'own' | 'all', readonly ResourceSlice[]>>,
  node: Node,
): DevicePool | undefined {
  const counters = new Map(all.flatMap(({ spec }) => (spec.sharedCounters ?? []).map((set) => [set.name, set.counters] as const)));
  const devices = own.flatMap(({ spec }) =>
    (spec.devices ?? []).flatMap((device): PoolDevice[] => {
      const location = spec.perDeviceNodeSelection === true ? device : spec;
      return matchesNode(location, node)
        ? [{ id: deviceId(driver, name, device.name), driver, pool: name, device, location, counters }]
        : [];
    }),
  );
  if (devices.length === 0) return undefined;
  const consumers = all.flatMap(({ spec }) =>
    (spec.devices ?? []).flatMap((device) =>
      device.consumesCounters === undefined ? [] : [[deviceId(driver, name, device.name), device] as const],
    ),
  );
  return { driver, name, devices, incomplete: false, invalid: undefined, consumers };
}
