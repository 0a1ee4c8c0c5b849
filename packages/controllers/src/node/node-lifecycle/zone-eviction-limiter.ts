import type { Node } from '@oarlock/api/types/core-v1';

export interface EvictionRates {
  /** Number of nodes per second that are evicted in each zone. */
  readonly evictionRate: number;
  /** Number of nodes per second that are evicted in a large, partially disrupted zone. Small zones are not evicted while partially disrupted. */
  readonly secondaryEvictionRate: number;
  /** Fraction of unready nodes at which a zone counts as partially disrupted. */
  readonly unhealthyZoneThreshold: number;
  /** Number of nodes above which a zone is large. */
  readonly largeClusterSize: number;
}

type ZoneState = 'normal' | 'partial' | 'full';
interface Zone {
  /** Whether each node is ready; undefined for a node that does not count. */
  readonly nodes: Map<string, boolean | undefined>;
  excludedCount: number;
  notReadyCount: number;
  state: ZoneState;
  lastEvictionAt: number;
}

/** The label of nodes that do not count in the state of their zone. */
const excludeDisruptionLabel = 'node.kubernetes.io/exclude-disruption';
const label = (node: Node, name: string) => node.metadata?.labels?.[`topology.kubernetes.io/${name}`] ?? '';

/** Returns region and zone of a node as upstream writes them; '' for a node without both. */
export function zoneKeyOf(node: Node): string {
  const [region, zone] = [label(node, 'region'), label(node, 'zone')];
  return region === '' && zone === '' ? '' : `${region}:\0:${zone}`;
}

const isReady = (node: Node) => node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;

/**
 * Limits the rate at which nodes are evicted in each zone. If many nodes of a zone are unready, a network fault is the more likely cause, so
 * the rate is lower; if all zones are fully disrupted, no node is evicted.
 */
export class ZoneEvictionLimiter {
  readonly #rates: EvictionRates;
  readonly #zones = new Map<string, Zone>();
  readonly #zoneOf = new Map<string, string>();
  #allZonesFullyDisrupted = false;

  constructor(rates: EvictionRates) {
    this.#rates = rates;
  }

  /** True if every zone is fully disrupted. */
  get allZonesFullyDisrupted(): boolean {
    return this.#allZonesFullyDisrupted;
  }

  /** Adds or updates a node. Returns the names of other nodes whose eviction this change may affect. */
  setNode(node: Node): Iterable<string> {
    const name = node.metadata?.name ?? '';
    const id = zoneKeyOf(node);
    const before = this.#zoneOf.get(name);
    const affected = before !== undefined && before !== id ? this.removeNode(name) : [];
    const zone = this.#zones.get(id) ?? {
      nodes: new Map<string, boolean | undefined>(),
      excludedCount: 0,
      notReadyCount: 0,
      state: 'normal' as ZoneState,
      lastEvictionAt: Number.NEGATIVE_INFINITY,
    };
    this.#zones.set(id, zone);
    this.#zoneOf.set(name, id);
    const ready = node.metadata?.labels?.[excludeDisruptionLabel] === undefined ? isReady(node) : undefined;
    const isKnown = zone.nodes.has(name);
    const known = zone.nodes.get(name);
    if (isKnown && known === ready) return affected;
    zone.nodes.set(name, ready);
    zone.notReadyCount += (ready === false ? 1 : 0) - (known === false ? 1 : 0);
    zone.excludedCount += (ready === undefined ? 1 : 0) - (isKnown && known === undefined ? 1 : 0);
    return [...affected, ...this.#computeZoneState(zone)];
  }

  removeNode(name: string): Iterable<string> {
    const id = this.#zoneOf.get(name);
    const zone = id === undefined ? undefined : this.#zones.get(id);
    if (id === undefined || zone === undefined) return [];
    this.#zoneOf.delete(name);
    if (zone.nodes.get(name) === false) zone.notReadyCount -= 1;
    if (zone.nodes.get(name) === undefined) zone.excludedCount -= 1;
    zone.nodes.delete(name);
    if (zone.nodes.size === 0) this.#zones.delete(id);
    return this.#computeZoneState(zone);
  }

  #computeZoneState(zone: Zone): Iterable<string> {
    const { notReadyCount: notReady, nodes } = zone;
    const counted = nodes.size - zone.excludedCount;
    const ready = counted - notReady;
    const state: ZoneState =
      ready === 0 && notReady > 0
        ? 'full'
        : notReady > 2 && notReady / counted >= this.#rates.unhealthyZoneThreshold
          ? 'partial'
          : 'normal';
    const changed = state !== zone.state;
    zone.state = state;
    const allDisrupted = this.#zones.size > 0 && [...this.#zones.values()].every((each) => each.state === 'full');
    if (allDisrupted !== this.#allZonesFullyDisrupted) {
      this.#allZonesFullyDisrupted = allDisrupted;
      return this.#zoneOf.keys();
    }
    return changed ? nodes.keys() : [];
  }

  /**
   * Returns 0 if the node may be evicted now, or the delay in milliseconds; undefined if the node must not be evicted before the state of the
   * zone changes.
   */
  tryEvict(name: string, nowMs: number): number | undefined {
    const zone = this.#zones.get(this.#zoneOf.get(name) ?? '');
    if (zone === undefined || this.#allZonesFullyDisrupted) return undefined;
    const { evictionRate, secondaryEvictionRate, largeClusterSize } = this.#rates;
    const rate =
      zone.state !== 'partial' ? evictionRate : zone.nodes.size - zone.excludedCount > largeClusterSize ? secondaryEvictionRate : 0;
    if (rate === 0) return undefined;
    const remainingMs = zone.lastEvictionAt + 1000 / rate - nowMs;
    if (remainingMs > 0) return remainingMs;
    zone.lastEvictionAt = nowMs;
    return 0;
  }
}
