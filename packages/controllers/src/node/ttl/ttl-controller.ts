import { nodes as nodeResource } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';

const annotation = 'node.alpha.kubernetes.io/ttl';

/** Cluster sizes in nodes, and the TTL for them. Adjacent sizes overlap, so that a cluster near a limit does not change its TTL repeatedly. */
const boundaries = [
  { min: 0, max: 100, ttlSeconds: 0 },
  { min: 90, max: 500, ttlSeconds: 15 },
  { min: 450, max: 1000, ttlSeconds: 30 },
  { min: 900, max: 2000, ttlSeconds: 60 },
  { min: 1800, max: Infinity, ttlSeconds: 300 },
] as const;

/** Returns the index of the boundary for a number of nodes: `step` while it still contains the number. */
export function nextStep(step: number, nodeCount: number): number {
  let next = step;
  while (nodeCount > (boundaries[next]?.max ?? Infinity)) next += 1;
  while (nodeCount < (boundaries[next]?.min ?? 0)) next -= 1;
  return next;
}

/** Annotates each Node with the seconds for which the kubelet may cache Secrets and ConfigMaps, by the size of the cluster. */
export default Controllers.plugin({
  id: 'controller-ttl',
  declares: { loop: 'ttl' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const nodes = informers.forResource(nodeResource);
    let step = 0;
    return {
      name: 'ttl',
      watches: [
        watch(nodes, ({ metadata }) => {
          const next = nextStep(step, nodes.size);
          if (next === step) return [metadata?.name ?? ''];
          step = next;
          return nodes.list().map((node) => node.metadata?.name ?? '');
        }),
      ],
      async reconcile(key, { client }) {
        const node = nodes.get(key);
        if (node === undefined) return;
        const ttl = String(boundaries[step]?.ttlSeconds);
        if (node.metadata?.annotations?.[annotation] === ttl) return;
        const patch = { metadata: { annotations: { [annotation]: ttl } } };
        await ignoreNotFound(() => client.patch(nodeResource, { name: key }, 'strategic', patch));
      },
    };
  },
});
