import type { Node } from '@oarlock/api/types/core-v1';

export interface EvictionRates {
  /** Nodes a second and zone from which pods are evicted. */
  readonly evictionRate: number;
  /** The same while a zone is partially lost; small zones are left alone then. */
  readonly secondaryEvictionRate: number;
  /** The part of a zone's nodes that are lost, from which on the zone counts as partially lost. */
  readonly unhealthyZoneThreshold: number;
  /** Zones of more nodes are large. */
  readonly largeClusterSize: number;
}

type ZoneState = 'normal' | 'partial' | 'full';
interface Zone {
  readonly nodes: Map<string, boolean>;
  lost: number;
  state: ZoneState;
  takenAt: number;
}

const label = (node: Node, name: string) => node.metadata?.labels?.[`topology.kubernetes.io/${name}`] ?? '';
const zoneOf = (node: Node) => `${label(node, 'region')} ${label(node, 'zone')}`;
const isReady = (node: Node) => node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;

/**
 * How fast pods may be evicted from lost nodes. The more of a zone is lost, the likelier it is that the network is at fault and not the nodes;
 * when everything is lost, nothing is evicted.
 */
export class EvictionZones {
  readonly #rates: EvictionRates;
  readonly #zones = new Map<string, Zone>();
  readonly #zoneOf = new Map<string, string>();
  #allLost = false;

  constructor(rates: EvictionRates) {
    this.#rates = rates;
  }

  /** Every node of the cluster is lost. */
  get allLost(): boolean {
    return this.#allLost;
  }

  /** Returns the nodes for which something has changed by this, beside the node itself. */
  put(node: Node): Iterable<string> {
    const name = node.metadata?.name ?? '';
    const id = zoneOf(node);
    const before = this.#zoneOf.get(name);
    const left = before !== undefined && before !== id ? this.remove(name) : [];
    const zone = this.#zones.get(id) ?? {
      nodes: new Map<string, boolean>(),
      lost: 0,
      state: 'normal' as ZoneState,
      takenAt: Number.NEGATIVE_INFINITY,
    };
    this.#zones.set(id, zone);
    this.#zoneOf.set(name, id);
    const ready = isReady(node);
    const known = zone.nodes.get(name);
    if (known === ready) return left;
    zone.nodes.set(name, ready);
    zone.lost += (ready ? 0 : 1) - (known === false ? 1 : 0);
    return [...left, ...this.#assess(zone)];
  }

  remove(name: string): Iterable<string> {
    const id = this.#zoneOf.get(name);
    const zone = id === undefined ? undefined : this.#zones.get(id);
    if (id === undefined || zone === undefined) return [];
    this.#zoneOf.delete(name);
    if (zone.nodes.get(name) === false) zone.lost -= 1;
    zone.nodes.delete(name);
    if (zone.nodes.size === 0) this.#zones.delete(id);
    return this.#assess(zone);
  }

  #assess(zone: Zone): Iterable<string> {
    const { lost, nodes } = zone;
    const ready = nodes.size - lost;
    const state: ZoneState =
      ready === 0 && lost > 0 ? 'full' : lost > 2 && lost / nodes.size >= this.#rates.unhealthyZoneThreshold ? 'partial' : 'normal';
    const changed = state !== zone.state;
    zone.state = state;
    const allLost = this.#zones.size > 0 && [...this.#zones.values()].every((each) => each.state === 'full');
    if (allLost !== this.#allLost) {
      this.#allLost = allLost;
      return this.#zoneOf.keys();
    }
    return changed ? nodes.keys() : [];
  }

  /** 0: pods may be evicted from this node now; else how long to wait, or undefined until the zone's state changes. */
  take(name: string, nowMs: number): number | undefined {
    const zone = this.#zones.get(this.#zoneOf.get(name) ?? '');
    if (zone === undefined || this.#allLost) return undefined;
    const { evictionRate, secondaryEvictionRate, largeClusterSize } = this.#rates;
    const rate = zone.state !== 'partial' ? evictionRate : zone.nodes.size > largeClusterSize ? secondaryEvictionRate : 0;
    if (rate === 0) return undefined;
    const left = zone.takenAt + 1000 / rate - nowMs;
    if (left > 0) return left;
    zone.takenAt = nowMs;
    return 0;
  }
}
