import { Scheduling, skip, success, type NodeInfo, type PodInfo } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const counts = Symbol('ZoneSpread');

/** Prefers the zones that run the fewest pods of the same application: those with the same value of one label. */
export default Scheduling.plugin({
  id: 'scheduling-zone-spread',
  config: z.strictObject({
    label: z.string().min(1).default('app'),
    zoneLabel: z.string().min(1).default('topology.kubernetes.io/zone'),
    weight: z.number().int().min(1).max(100).default(2),
  }),
  create({ config }) {
    const zoneOf = ({ node }: NodeInfo) => node.metadata?.labels?.[config.zoneLabel] ?? '';
    const appOf = ({ pod }: PodInfo) => pod.metadata?.labels?.[config.label];
    return {
      name: 'ZoneSpread',
      weight: config.weight,
      preScore(state, pod) {
        const app = appOf(pod);
        if (app === undefined) return skip;
        const namespace = pod.pod.metadata?.namespace;
        const byZone = new Map<string, number>();
        for (const node of state.snapshot.nodes) {
          const same = node.pods.filter((other) => appOf(other) === app && other.pod.metadata?.namespace === namespace).length;
          byZone.set(zoneOf(node), (byZone.get(zoneOf(node)) ?? 0) + same);
        }
        state.write(counts, byZone);
        return success;
      },
      score: (state, _pod, node) => state.read<ReadonlyMap<string, number>>(counts)?.get(zoneOf(node)) ?? 0,
      // fewer pods score higher, and the range is 0 to 100
      normalizeScore(_state, _pod, _nodes, scores) {
        let most = 0;
        for (const score of scores) most = Math.max(most, score);
        for (let index = 0; index < scores.length; index++)
          scores[index] = most === 0 ? 100 : 100 - Math.floor((100 * (scores[index] ?? 0)) / most);
      },
    };
  },
});
