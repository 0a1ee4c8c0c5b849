import { matchesNodeSelector } from '@oarlock/api/component-helpers/node-affinity';
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
  /** True if slices of the pool are missing, because the driver is updating it. */
  readonly incomplete: boolean;
  /** The reason why no device of the pool can be allocated; undefined if the pool is valid. */
  readonly invalid: string | undefined;
  /** All devices of the pool that consume shared counters, on any node. */
  readonly consumers: readonly (readonly [id: string, device: Device])[];
}

export const deviceId = (driver: string, pool: string, device: string): string => `${driver}/${pool}/${device}`;

const matchesNode = ({ nodeName, nodeSelector, allNodes }: PoolDevice['location'], node: Node): boolean =>
  allNodes === true ||
  (nodeName !== undefined && nodeName !== ''
    ? nodeName === node.metadata?.name
    : nodeSelector !== undefined && matchesNodeSelector(nodeSelector, node));

interface PoolSlices {
  readonly driver: string;
  readonly name: string;
  generation: number;
  expectedSlices: number;
  slices: ResourceSlice[];
}

/** Groups ResourceSlices by pool, and keeps only the ResourceSlices of the newest generation. */
function groupByPool(slices: readonly ResourceSlice[]): readonly PoolSlices[] {
  const pools = new Map<string, PoolSlices>();
  for (const slice of slices) {
    const { driver, pool } = slice.spec;
    const key = `${driver}/${pool.name}`;
    const known = pools.get(key);
    if (known === undefined || pool.generation > known.generation)
      pools.set(key, { driver, name: pool.name, generation: pool.generation, expectedSlices: pool.resourceSliceCount, slices: [slice] });
    else if (pool.generation === known.generation) known.slices.push(slice);
  }
  return [...pools.values()];
}

/** The device pools of the cluster, indexed by node. */
export class DevicePools {
  readonly #byNode = new Map<string, PoolSlices[]>();
  /** Pools that are not local to one node. */
  readonly #shared: PoolSlices[] = [];

  constructor(slices: readonly ResourceSlice[]) {
    for (const pool of groupByPool(slices)) {
      const node = pool.slices[0]?.spec.nodeName;
      if (!node || pool.slices.some(({ spec }) => spec.nodeName !== node)) this.#shared.push(pool);
      else if (this.#byNode.has(node)) this.#byNode.get(node)?.push(pool);
      else this.#byNode.set(node, [pool]);
    }
  }

  /** Returns the pools with devices that a node can access. Pools with binding conditions are last (KEP-5007). */
  poolsForNode(node: Node): readonly DevicePool[] {
    return [...(this.#byNode.get(node.metadata?.name ?? '') ?? []), ...this.#shared]
      .map((pool) => poolForNode(pool, node))
      .filter(({ devices }) => devices.length > 0)
      .sort((a, b) => Number(hasConditions(a)) - Number(hasConditions(b)) || (a.driver + a.name < b.driver + b.name ? -1 : 1));
  }
}
const hasConditions = ({ devices }: DevicePool) => devices.some(({ device }) => (device.bindingConditions?.length ?? 0) > 0);

function poolForNode({ driver, name, expectedSlices, slices }: PoolSlices, node: Node): DevicePool {
  const devices: PoolDevice[] = [];
  const seen = new Set<string>();
  let invalid: string | undefined;
  const counters = new Map(slices.flatMap(({ spec }) => (spec.sharedCounters ?? []).map((set) => [set.name, set.counters] as const)));
  const consumers: [string, Device][] = [];
  for (const { spec } of slices) {
    if (counters.size > 0)
      for (const device of spec.devices ?? [])
        if (device.consumesCounters !== undefined) consumers.push([deviceId(driver, name, device.name), device]);
    const isPerDevice = spec.perDeviceNodeSelection === true;
    if (!isPerDevice && !matchesNode(spec, node)) continue;
    for (const device of spec.devices ?? []) {
      if (seen.has(device.name)) invalid = `duplicate device name ${device.name}`;
      seen.add(device.name);
      const location = isPerDevice ? device : spec;
      if (isPerDevice && !matchesNode(device, node)) continue;
      devices.push({ id: deviceId(driver, name, device.name), driver, pool: name, device, location, counters });
    }
  }
  return { driver, name, devices, incomplete: slices.length !== expectedSlices, invalid, consumers };
}
