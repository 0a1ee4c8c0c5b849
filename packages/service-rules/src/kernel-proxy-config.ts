import type { ClusterFacts } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { familiesOf, type Family } from './port-rules.ts';

/** Configuration of proxies that program the kernel. */
export const kernelProxyConfig = z.strictObject({
  /**
   * Masquerades all Service traffic with the node's address. `auto`: only if the kernel has no bridge netfilter, where replies would
   * otherwise bypass the translation.
   */
  masqueradeAll: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  /** Absent: the families of the cluster's Services. */
  families: z
    .array(z.enum(['ip', 'ip6']))
    .min(1)
    .optional(),
  /** CIDRs of the node addresses that accept node port traffic; empty: all except loopback. */
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

/** Returns the configured options, with defaults from the cluster. */
export function kernelProxyOptions(config: z.output<typeof kernelProxyConfig>, facts: ClusterFacts): KernelProxyOptions {
  return { ...config, podCIDRs: facts.podCIDRs, families: config.families ?? familiesOf(facts.serviceCIDRs) };
}
