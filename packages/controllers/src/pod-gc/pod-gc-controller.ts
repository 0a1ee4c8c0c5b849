import { objectKey } from '@oarlock/api/object';
import { nodes, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { nameOf } from '../pod-template.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';

const ended = 'ended';
const endedPods = (pod: Pod) => (isTerminal(pod) ? ['all'] : []);
const outOfService = 'node.kubernetes.io/out-of-service';

/** Somebody has said that nothing runs there any more, and the node itself does not say otherwise. */
const isOutOfService = (node: Node | undefined) =>
  node !== undefined &&
  (node.spec?.taints?.some(({ key }) => key === outOfService) ?? false) &&
  !node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
/** Nobody will ever say that such a pod has ended: it was on no node. */
const isNowhere = (pod: Pod) => isTerminating(pod) && !pod.spec?.nodeName;

/**
 * Removes pods nobody else would: those of a node that is gone for good or out of service, those that end without ever having been on a node, and the oldest of
 * very many that have ended.
 */
export default Controllers.plugin({
  id: 'controller-pod-gc',
  declares: { loop: 'pod-garbage-collector' },
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

    /** First its end is written down, so that a Job can count it, then it goes. `lostNode`: it is disrupted, not merely forgotten. */
    const remove = async (pod: Pod, client: Client, { mark, lostNode }: { readonly mark: boolean; readonly lostNode: boolean }) => {
      const preconditions = { uid: pod.metadata?.uid ?? '' };
      // only finalizers hold it still
      if (isTerminal(pod) && isTerminating(pod) && pod.metadata?.deletionGracePeriodSeconds === 0) return;
      try {
        if (mark && !isTerminal(pod)) {
          const disrupted = {
            type: 'DisruptionTarget',
            status: 'True',
            reason: 'DeletionByPodGC',
            message: 'PodGC: node no longer exists',
            lastTransitionTime: formatTime(clock.now()),
          };
          const { uid, resourceVersion } = pod.metadata ?? {};
          const status = { phase: 'Failed', ...(lostNode && { conditions: [disrupted] }) };
          // Kubernetes' role for it lets it patch, not update
          await client.patch(
            podResource,
            nameOf(pod),
            'strategic',
            { metadata: { uid, resourceVersion }, status },
            { subresource: 'status' },
          );
        }
        await client.delete(podResource, nameOf(pod), { gracePeriodSeconds: 0, preconditions });
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
      }
    };

    return {
      name: 'pod-garbage-collector',
      workers: 1,
      watches: [
        watch(all, ({ metadata }) => [`node/${metadata?.name}`]),
        watch(pods, (pod, old) => {
          const keys: string[] = [];
          const node = pod.spec?.nodeName;
          if (node && (old === undefined || old.spec?.nodeName !== node) && all.get(node) === undefined) keys.push(`node/${node}`);
          if (isNowhere(pod) || (node && isTerminating(pod) && isOutOfService(all.get(node)))) keys.push(`pod/${objectKey(pod)}`);
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
          for (const pod of oldest) await remove(pod, client, { mark: false, lostNode: false });
          return undefined;
        }
        if (key.startsWith('pod/')) {
          const pod = pods.get(key.slice('pod/'.length));
          if (pod !== undefined && (isNowhere(pod) || (isTerminating(pod) && isOutOfService(all.get(pod.spec?.nodeName ?? '')))))
            await remove(pod, client, { mark: true, lostNode: false });
          return undefined;
        }
        const name = key.slice('node/'.length);
        const node = all.get(name);
        if (isOutOfService(node))
          for (const pod of pods.byIndex(byNode, name)) if (isTerminating(pod)) await remove(pod, client, { mark: true, lostNode: false });
        const orphans = node === undefined ? pods.byIndex(byNode, name) : [];
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
        for (const pod of orphans) await remove(pod, client, { mark: true, lostNode: true });
        missingSince.delete(name);
        return undefined;
      },
    };
  },
});
