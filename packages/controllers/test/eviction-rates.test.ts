import type { Node } from '@oarlock/api/types/core-v1';
import { EvictionZones } from '@oarlock/controllers/node-lifecycle/eviction-zones';
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

/** How many nodes of each zone are emptied within so many seconds, when each lost one asks every second. */
function evictedIn(seconds: number, zones: Readonly<Record<string, Zone>>): Readonly<Record<string, number>> {
  const all = new EvictionZones(rates);
  const waiting = new Map<string, string[]>();
  for (const [zone, { nodes, lost }] of Object.entries(zones))
    for (let at = 0; at < nodes; at++) {
      all.put(node(`${zone}${at}`, zone, true));
      if (at < lost) waiting.set(zone, [...(waiting.get(zone) ?? []), `${zone}${at}`]);
    }
  for (const [zone, names] of waiting) for (const name of names) all.put(node(name, zone, false));
  const count: Record<string, number> = Object.fromEntries(Object.keys(zones).map((zone) => [zone, 0]));
  for (let second = 0; second < seconds; second++)
    for (const [zone, names] of waiting) {
      const [name] = names;
      if (name === undefined || all.take(name, second * 1000) !== 0) continue;
      names.shift();
      count[zone] = (count[zone] ?? 0) + 1;
    }
  return count;
}

describe('pods are evicted from lost nodes', () => {
  it('one node every ten seconds in each zone, however many nodes are lost at once', () => {
    expect(evictedIn(1000, { a: { nodes: 5000, lost: 500 }, b: { nodes: 100, lost: 54 }, c: { nodes: 100, lost: 3 } })).toEqual({
      a: 100,
      b: 54,
      c: 3,
    });
  });

  it('one every hundred seconds in a large zone that is lost by fifty-five percent or more', () => {
    expect(evictedIn(1000, { a: { nodes: 100, lost: 55 }, b: { nodes: 5000, lost: 0 } })).toEqual({ a: 10, b: 0 });
    expect(evictedIn(1000, { a: { nodes: 51, lost: 40 }, b: { nodes: 10, lost: 0 } })).toEqual({ a: 10, b: 0 });
  });

  it('not at all in a zone of fifty or fewer', () => {
    expect(evictedIn(1000, { a: { nodes: 50, lost: 40 }, b: { nodes: 10, lost: 1 } })).toEqual({ a: 0, b: 1 });
  });

  it('as ever where two are lost, or a whole zone beside others', () => {
    expect(evictedIn(1000, { a: { nodes: 3, lost: 2 }, b: { nodes: 20, lost: 20 }, c: { nodes: 10, lost: 0 } })).toEqual({
      a: 2,
      b: 20,
      c: 0,
    });
  });

  it('not at all when everything is lost', () => {
    expect(evictedIn(1000, { a: { nodes: 100, lost: 100 }, b: { nodes: 3, lost: 3 } })).toEqual({ a: 0, b: 0 });
  });
});
