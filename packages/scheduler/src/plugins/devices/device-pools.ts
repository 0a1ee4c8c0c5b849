import type { Node } from '@oarlock/api/types/core-v1';
import type { Counter, Device, ResourceSlice } from '@oarlock/api/types/resource-v1';
import { matchesSelector } from '../node-affinity-match.ts';

/** A device that a node could use. */
export interface Offer {
  readonly id: string;
  readonly driver: string;
  readonly pool: string;
  readonly device: Device;
  /** The slice's word on where the device is, or the device's own. */
  readonly where: Pick<Device, 'nodeName' | 'nodeSelector' | 'allNodes'>;
  readonly counters: ReadonlyMap<string, Readonly<Record<string, Counter>>>;
}

export interface Pool {
  readonly driver: string;
  readonly name: string;
  readonly offers: readonly Offer[];
  /** Some of its slices are missing: it is being changed. */
  readonly incomplete: boolean;
  /** Why nothing can be taken from it. */
  readonly invalid: string | undefined;
  /** All of its devices that consume counters, wherever they are. */
  readonly consumers: readonly (readonly [id: string, device: Device])[];
}

export const deviceId = (driver: string, pool: string, device: string): string => `${driver}/${pool}/${device}`;

const isHere = ({ nodeName, nodeSelector, allNodes }: Offer['where'], node: Node): boolean =>
  allNodes === true ||
  (nodeName !== undefined && nodeName !== ''
    ? nodeName === node.metadata?.name
    : nodeSelector !== undefined && matchesSelector(node, nodeSelector));

interface Gathered {
  readonly driver: string;
  readonly name: string;
  generation: number;
  wanted: number;
  slices: ResourceSlice[];
}

/** The newest generation of each pool, over all slices of the cluster. */
function gather(slices: readonly ResourceSlice[]): readonly Gathered[] {
  const pools = new Map<string, Gathered>();
  for (const slice of slices) {
    const { driver, pool } = slice.spec;
    const key = `${driver}/${pool.name}`;
    const known = pools.get(key);
    if (known === undefined || pool.generation > known.generation)
      pools.set(key, { driver, name: pool.name, generation: pool.generation, wanted: pool.resourceSliceCount, slices: [slice] });
    else if (pool.generation === known.generation) known.slices.push(slice);
  }
  return [...pools.values()];
}

/** The pools of a cluster, found by node. */
export class DevicePools {
  readonly #byNode = new Map<string, Gathered[]>();
  readonly #anywhere: Gathered[] = [];

  constructor(slices: readonly ResourceSlice[]) {
    for (const pool of gather(slices)) {
      const node = pool.slices[0]?.spec.nodeName;
      if (!node || pool.slices.some(({ spec }) => spec.nodeName !== node)) this.#anywhere.push(pool);
      else if (this.#byNode.has(node)) this.#byNode.get(node)?.push(pool);
      else this.#byNode.set(node, [pool]);
    }
  }

  /** What a node could use; devices that have to be made ready first come last. */
  on(node: Node): readonly Pool[] {
    return [...(this.#byNode.get(node.metadata?.name ?? '') ?? []), ...this.#anywhere]
      .map((pool) => poolOn(pool, node))
      .filter(({ offers }) => offers.length > 0)
      .sort((a, b) => Number(hasConditions(a)) - Number(hasConditions(b)) || (a.driver + a.name < b.driver + b.name ? -1 : 1));
  }
}
const hasConditions = ({ offers }: Pool) => offers.some(({ device }) => (device.bindingConditions?.length ?? 0) > 0);

function poolOn({ driver, name, wanted, slices }: Gathered, node: Node): Pool {
  const offers: Offer[] = [];
  const seen = new Set<string>();
  let invalid: string | undefined;
  const counters = new Map(slices.flatMap(({ spec }) => (spec.sharedCounters ?? []).map((set) => [set.name, set.counters] as const)));
  const consumers: [string, Device][] = [];
  for (const { spec } of slices) {
    if (counters.size > 0)
      for (const device of spec.devices ?? [])
        if (device.consumesCounters !== undefined) consumers.push([deviceId(driver, name, device.name), device]);
    const own = spec.perDeviceNodeSelection === true;
    if (!own && !isHere(spec, node)) continue;
    for (const device of spec.devices ?? []) {
      if (seen.has(device.name)) invalid = `duplicate device name ${device.name}`;
      seen.add(device.name);
      const where = own ? device : spec;
      if (own && !isHere(device, node)) continue;
      offers.push({ id: deviceId(driver, name, device.name), driver, pool: name, device, where, counters });
    }
  }
  return { driver, name, offers, incomplete: slices.length !== wanted, invalid, consumers };
}
