import type { ClusterFacts } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { familiesOf, type Family } from './port-rules.ts';

/** What proxies that are rules in the kernel let users choose. */
export const kernelProxyConfig = z.strictObject({
  /** Send all Service traffic with the node's address. `auto`: where the kernel has no bridge netfilter, because then it is the only way. */
  masqueradeAll: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  /** Absent: those of the cluster's Services. */
  families: z
    .array(z.enum(['ip', 'ip6']))
    .min(1)
    .optional(),
  /** Ranges of this node's addresses that node ports answer at; empty: all but loopback. */
  nodePortAddresses: z
    .array(z.string().regex(/^[0-9a-fA-F.:]+\/\d{1,3}$/, 'an address range such as 10.0.0.0/8'))
    .max(64)
    .default([]),
});

export interface KernelProxyOptions {
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean | 'auto';
  readonly families: readonly Family[];
  /** Default: none. */
  readonly nodePortAddresses?: readonly string[];
}

/** What was chosen, and what the cluster says where nothing was. */
export function kernelProxyOptions(config: z.output<typeof kernelProxyConfig>, facts: ClusterFacts): KernelProxyOptions {
  return { ...config, podCIDRs: facts.podCIDRs, families: config.families ?? familiesOf(facts.serviceCIDRs) };
}
