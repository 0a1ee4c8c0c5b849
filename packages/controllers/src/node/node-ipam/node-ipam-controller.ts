import { parseCIDR } from '@oarlock/api/net/cidr';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { Cluster } from '@oarlock/spi/cluster';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { CidrSet } from './cidr-set.ts';

/** Allocates to every node a pod CIDR of each IP family of the cluster. */
export default Controllers.plugin({
  id: 'controller-node-ipam',
  declares: { loop: 'node-ipam' },
  config: z.strictObject({
    nodeMaskBits: z.number().int().min(8).max(30).default(24),
    nodeMaskBitsIPv6: z.number().int().min(16).max(126).default(64),
  }),
  needs: { informers: Informers, events: Events, facts: Cluster },
  create({ config, informers, events, facts }) {
    const nodeInformer = informers.forResource(nodes);
    const recorder = events.recorder('cidrAllocator');
    const pools = facts.podCIDRs.map((cidr) => {
      const range = parseCIDR(cidr);
      return new CidrSet(
        cidr,
        Math.max(range?.family === 'IPv6' ? config.nodeMaskBitsIPv6 : config.nodeMaskBits, range?.prefixLength ?? 0),
      );
    });
    /** Nodes that have no pod CIDR because the ranges were exhausted. The controller retries these nodes when another node is deleted. */
    const nodesWithoutCidr = new Set<string>();
    const allocated = new Map<string, readonly string[]>();
    const occupyCidrs = ({ metadata, spec }: Node) => {
      const cidrs = spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : []);
      if (cidrs.length === 0) return;
      allocated.set(metadata?.name ?? '', cidrs);
      for (const cidr of cidrs) for (const pool of pools) pool.occupy(cidr);
    };
    nodeInformer.addEventHandler({
      onAdd: occupyCidrs,
      onUpdate: occupyCidrs,
      onDelete({ metadata }) {
        for (const cidr of allocated.get(metadata?.name ?? '') ?? []) for (const pool of pools) pool.release(cidr);
        allocated.delete(metadata?.name ?? '');
      },
    });
    return {
      name: 'node-ipam',
      concurrentReconciles: 1,
      watches: [
        watch(nodeInformer, ({ metadata, spec }, old) => [
          ...(spec?.podCIDR || (old !== undefined && nodesWithoutCidr.has(metadata?.name ?? '')) ? [] : [metadata?.name ?? '']),
          ...(old === undefined && nodeInformer.get(metadata?.name ?? '') === undefined ? nodesWithoutCidr : []),
        ]),
      ],
      async reconcile(name, { client }) {
        const node = nodeInformer.get(name);
        nodesWithoutCidr.delete(name);
        if (node === undefined || node.spec?.podCIDR || pools.length === 0) return;
        const allocation = allocated.get(name) ?? pools.map((pool) => pool.allocateNext());
        const cidrs = allocation.filter((cidr) => cidr !== undefined);
        if (cidrs.length < allocation.length) {
          for (const cidr of cidrs) for (const pool of pools) pool.release(cidr);
          nodesWithoutCidr.add(name);
          recorder.event(node, 'Normal', 'CIDRNotAvailable', `Node ${name} status is now: CIDRNotAvailable`);
          return;
        }
        allocated.set(name, cidrs); // kept if the write fails: the retry uses the same
        await client.patch(nodes, { name }, 'strategic', {
          metadata: { uid: node.metadata?.uid },
          spec: { podCIDR: cidrs[0], podCIDRs: cidrs },
        });
      },
    };
  },
});
