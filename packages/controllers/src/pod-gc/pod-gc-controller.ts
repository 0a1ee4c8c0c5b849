import { nodes, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminal } from '../pod-state.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';

const ended = 'ended';
const endedPods = (pod: Pod) => (isTerminal(pod) ? ['all'] : []);

/** Removes pods nobody else would: those of a node that is gone for good, and the oldest of very many that have ended. */
export default Controllers.plugin({
  id: 'controller-pod-gc',
  config: z.strictObject({
    terminatedPodThreshold: z.number().int().min(0).default(12_500),
    /** A node that comes back within this time keeps its pods. */
    quarantineSeconds: z.number().int().min(0).default(40),
  }),
  needs: { informers: Informers },
  create({ config, informers }, { clock }) {
    const pods = informers.of(podResource);
    const all = informers.of(nodes);
    pods.addIndex(byNode, nodeOf);
    pods.addIndex(ended, endedPods);
    const missingSince = new Map<string, number>();
    const remove = async (pod: Pod, client: Client) => {
      try {
        await client.delete(
          podResource,
          { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' },
          { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata?.uid ?? '' } },
        );
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    };
    return {
      name: 'pod-garbage-collector',
      workers: 1,
      watches: [
        watch(all, ({ metadata }) => [`node/${metadata?.name}`]),
        watch(pods, (pod, old) => {
          const keys: string[] = [];
          if (
            pod.spec?.nodeName &&
            (old === undefined || old.spec?.nodeName !== pod.spec.nodeName) &&
            all.get(pod.spec.nodeName) === undefined
          )
            keys.push(`node/${pod.spec.nodeName}`);
          if (isTerminal(pod) && pods.byIndex(ended, 'all').length > config.terminatedPodThreshold) keys.push('ended');
          return keys;
        }),
      ],
      async reconcile(key, { client }) {
        if (key === 'ended') {
          const terminated = pods.byIndex(ended, 'all');
          const excess = terminated.length - config.terminatedPodThreshold;
          const oldest = terminated
            .toSorted((a, b) => ((a.metadata?.creationTimestamp ?? '') < (b.metadata?.creationTimestamp ?? '') ? -1 : 1))
            .slice(0, Math.max(0, excess));
          for (const pod of oldest) await remove(pod, client);
          return undefined;
        }
        const name = key.slice('node/'.length);
        const orphans = all.get(name) === undefined ? pods.byIndex(byNode, name) : [];
        if (orphans.length === 0) {
          missingSince.delete(name);
          return undefined;
        }
        const since = missingSince.get(name) ?? clock.monotonic();
        missingSince.set(name, since);
        const left = since + config.quarantineSeconds * 1000 - clock.monotonic();
        if (left > 0) return { requeueAfterMs: left };
        try {
          await client.get(nodes, { name });
          return undefined; // the cache was behind
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
        }
        for (const pod of orphans) await remove(pod, client);
        missingSince.delete(name);
        return undefined;
      },
    };
  },
});
