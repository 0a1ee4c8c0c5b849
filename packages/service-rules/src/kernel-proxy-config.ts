import type { ClusterFacts } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { familiesOf, type Family } from './port-rules.ts';

/** Configuration of service proxies that program the kernel (nftables, iptables, ipvs). */
export const kernelProxyConfig = z.strictObject({
  /**
   * Masquerades all Service traffic with the node's address. `auto` enables this only if the kernel has no bridge netfilter: replies between
   * pods on one bridge would otherwise bypass the address translation.
   */
  masqueradeAll: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  /** IP families that the proxy handles. Default: the families of the cluster's Service CIDRs. */
  families: z
    .array(z.enum(['ip', 'ip6']))
    .min(1)
    .optional(),
  /** CIDRs of the node addresses that accept node port traffic. If empty, all node addresses except loopback accept it. */
  nodePortAddresses: z
    .array(z.string().regex(/^[0-9a-fA-F.:]+\/\d{1,3}$/, 'an address range such as 10.0.0.0/8'))
    .max(64)
    .default([]),
});

/** The parts of the machine that proxies of the kernel cannot share, whatever plugin programs them: all match the addresses of Services. */
export const kernelProxyParts: readonly string[] = ["the kernel's rules for Services"];

export interface KernelProxyOptions {
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean | 'auto';
  readonly families: readonly Family[];
  /** CIDRs of the node addresses that accept node port traffic. */
  readonly nodePortAddresses?: readonly string[];
}

/** Returns the proxy options from the configuration, with defaults from the cluster's networking. */
export function kernelProxyOptions(config: z.output<typeof kernelProxyConfig>, facts: ClusterFacts): KernelProxyOptions {
  return { ...config, podCIDRs: facts.podCIDRs, families: config.families ?? familiesOf(facts.serviceCIDRs) };
}
