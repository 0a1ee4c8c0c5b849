import { isIPv4 } from 'node:net';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { Cluster } from '@oarlock/spi/cluster';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { CidrPool } from './cidr-pool.ts';

/** Gives every node a range of pod addresses of its own. */
export default Controllers.plugin({
  id: 'controller-node-ipam',
  config: z.strictObject({ nodeMaskBits: z.number().int().min(8).max(30).default(24) }),
  needs: { informers: Informers, events: Events, facts: Cluster },
  create({ config, informers, events, facts }) {
    const all = informers.of(nodes);
    const recorder = events.recorder('cidrAllocator');
    const pools = facts.podCIDRs
      .filter((cidr) => isIPv4(cidr.split('/')[0] ?? ''))
      .map((cidr) => new CidrPool(cidr, Math.max(config.nodeMaskBits, Number(cidr.split('/')[1]))));
    const held = new Map<string, readonly string[]>();
    const note = ({ metadata, spec }: Node) => {
      const cidrs = spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : []);
      if (cidrs.length === 0) return;
      held.set(metadata?.name ?? '', cidrs);
      for (const cidr of cidrs) for (const pool of pools) pool.occupy(cidr);
    };
    all.on({
      added: note,
      updated: note,
      deleted({ metadata }) {
        for (const cidr of held.get(metadata?.name ?? '') ?? []) for (const pool of pools) pool.release(cidr);
        held.delete(metadata?.name ?? '');
      },
    });
    return {
      name: 'node-ipam',
      workers: 1,
      watches: [watch(all, ({ metadata, spec }) => (spec?.podCIDR ? [] : [metadata?.name ?? '']))],
      async reconcile(name, { client }) {
        const node = all.get(name);
        if (node === undefined || node.spec?.podCIDR || pools.length === 0) return;
        const taken = held.get(name) ?? pools.map((pool) => pool.take());
        const cidrs = taken.filter((cidr) => cidr !== undefined);
        if (cidrs.length < taken.length) {
          for (const cidr of cidrs) for (const pool of pools) pool.release(cidr);
          recorder.event(node, 'Normal', 'CIDRNotAvailable', `Node ${name} status is now: CIDRNotAvailable`);
          return;
        }
        held.set(name, cidrs); // kept when the write fails: the retry uses the same
        await client.patch(nodes, { name }, 'strategic', {
          metadata: { uid: node.metadata?.uid },
          spec: { podCIDR: cidrs[0], podCIDRs: cidrs },
        });
      },
    };
  },
});
