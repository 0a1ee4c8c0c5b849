import { isIPv6 } from 'node:net';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { Cluster } from '@oarlock/spi/cluster';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { CidrPool } from './cidr-pool.ts';

/** Gives every node a range of pod addresses of its own, of each family that the cluster has. */
export default Controllers.plugin({
  id: 'controller-node-ipam',
  declares: { loop: 'node-ipam' },
  config: z.strictObject({
    nodeMaskBits: z.number().int().min(8).max(30).default(24),
    nodeMaskBitsIPv6: z.number().int().min(16).max(126).default(64),
  }),
  needs: { informers: Informers, events: Events, facts: Cluster },
  create({ config, informers, events, facts }) {
    const all = informers.of(nodes);
    const recorder = events.recorder('cidrAllocator');
    const pools = facts.podCIDRs.map((cidr) => {
      const [base = '', bits] = cidr.split('/');
      return new CidrPool(cidr, Math.max(isIPv6(base) ? config.nodeMaskBitsIPv6 : config.nodeMaskBits, Number(bits)));
    });
    /** Nodes for which there was no range left: they are looked at again when another node goes. */
    const waiting = new Set<string>();
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
      watches: [
        watch(all, ({ metadata, spec }, old) => [
          ...(spec?.podCIDR || (old !== undefined && waiting.has(metadata?.name ?? '')) ? [] : [metadata?.name ?? '']),
          ...(old === undefined && all.get(metadata?.name ?? '') === undefined ? waiting : []),
        ]),
      ],
      async reconcile(name, { client }) {
        const node = all.get(name);
        waiting.delete(name);
        if (node === undefined || node.spec?.podCIDR || pools.length === 0) return;
        const taken = held.get(name) ?? pools.map((pool) => pool.take());
        const cidrs = taken.filter((cidr) => cidr !== undefined);
        if (cidrs.length < taken.length) {
          for (const cidr of cidrs) for (const pool of pools) pool.release(cidr);
          waiting.add(name);
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
