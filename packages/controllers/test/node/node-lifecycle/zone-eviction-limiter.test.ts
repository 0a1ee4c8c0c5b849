import type { Node } from '@oarlock/api/types/core-v1';
import { ZoneEvictionLimiter } from '@oarlock/controllers/node/node-lifecycle/zone-eviction-limiter';
import { describe, expect, it } from 'vitest';

const rates = { evictionRate: 0.1, secondaryEvictionRate: 0.01, unhealthyZoneThreshold: 0.55, largeClusterSize: 50 };
const node = (name: string, zone: string, ready: boolean): Node => ({
  metadata: { name, labels: { 'topology.kubernetes.io/zone': zone } },
  status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown' }] },
});
interface Zone {
  readonly nodes: number;
  readonly lost: number;
}

/** Returns the number of evicted nodes by zone within so many seconds, if each unready node tries every second. */
function evictedIn(seconds: number, zones: Readonly<Record<string, Zone>>): Readonly<Record<string, number>> {
  const all = new ZoneEvictionLimiter(rates);
  const waiting = new Map<string, string[]>();
  for (const [zone, { nodes, lost }] of Object.entries(zones))
    for (let at = 0; at < nodes; at++) {
      all.setNode(node(`${zone}${at}`, zone, true));
      if (at < lost) waiting.set(zone, [...(waiting.get(zone) ?? []), `${zone}${at}`]);
    }
  for (const [zone, names] of waiting) for (const name of names) all.setNode(node(name, zone, false));
  const count: Record<string, number> = Object.fromEntries(Object.keys(zones).map((zone) => [zone, 0]));
  for (let second = 0; second < seconds; second++)
    for (const [zone, names] of waiting) {
      const [name] = names;
      if (name === undefined || all.tryEvict(name, second * 1000) !== 0) continue;
      names.shift();
      count[zone] = (count[zone] ?? 0) + 1;
    }
  return count;
}

describe('ZoneEvictionLimiter', () => {
  it('evicts one node per ten seconds in each zone', () => {
    expect(evictedIn(1000, { a: { nodes: 5000, lost: 500 }, b: { nodes: 100, lost: 54 }, c: { nodes: 100, lost: 3 } })).toEqual({
      a: 100,
      b: 54,
      c: 3,
    });
  });

  it('evicts one node per hundred seconds in a large zone with 55 percent or more unready nodes', () => {
    expect(evictedIn(1000, { a: { nodes: 100, lost: 55 }, b: { nodes: 5000, lost: 0 } })).toEqual({ a: 10, b: 0 });
    expect(evictedIn(1000, { a: { nodes: 51, lost: 40 }, b: { nodes: 10, lost: 0 } })).toEqual({ a: 10, b: 0 });
  });

  it('evicts nothing in such a zone with fifty or fewer nodes', () => {
    expect(evictedIn(1000, { a: { nodes: 50, lost: 40 }, b: { nodes: 10, lost: 1 } })).toEqual({ a: 0, b: 1 });
  });

  it('evicts at the normal rate with two unready nodes, or one full disruption beside other zones', () => {
    expect(evictedIn(1000, { a: { nodes: 3, lost: 2 }, b: { nodes: 20, lost: 20 }, c: { nodes: 10, lost: 0 } })).toEqual({
      a: 2,
      b: 20,
      c: 0,
    });
  });

  it('evicts nothing if all zones are disrupted', () => {
    expect(evictedIn(1000, { a: { nodes: 100, lost: 100 }, b: { nodes: 3, lost: 3 } })).toEqual({ a: 0, b: 0 });
  });

  it('does not count nodes with the label exclude-disruption', () => {
    const limiter = new ZoneEvictionLimiter(rates);
    const excluded = (name: string): Node => {
      const lost = node(name, 'a', false);
      return { ...lost, metadata: { ...lost.metadata, labels: { ...lost.metadata?.labels, 'node.kubernetes.io/exclude-disruption': '' } } };
    };
    limiter.setNode(node('a0', 'a', false));
    limiter.setNode(node('a1', 'a', true));
    for (const name of ['a2', 'a3', 'a4']) limiter.setNode(excluded(name));
    expect(limiter.tryEvict('a0', 0)).toBe(0);
    limiter.setNode(node('a1', 'a', false));
    expect(limiter.allZonesFullyDisrupted).toBe(true);
    limiter.setNode(excluded('a0'));
    limiter.setNode(excluded('a1'));
    expect(limiter.allZonesFullyDisrupted).toBe(false);
  });
});
