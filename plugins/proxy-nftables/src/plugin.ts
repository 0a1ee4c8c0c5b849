import { execa } from 'execa';
import { familiesOf } from '@oarlock/service-rules/port-plan';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { Cluster } from '@oarlock/spi/cluster';
import { Proxy } from '@oarlock/spi/proxy';
import { z } from 'zod';
import { NftablesProxy } from './nftables-proxy.ts';

/** Services in the kernel, by nftables. Needs root on Linux. */
export default Proxy.plugin({
  id: 'proxy-nftables',
  config: z.strictObject({
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
  }),
  needs: { facts: Cluster },
  async probe() {
    if (process.platform !== 'linux') return unavailable('nftables is a part of Linux');
    if (process.getuid?.() !== 0) return unavailable('changing packet rules needs root');
    const { failed, code, stderr } = await execa('nft', ['list', 'tables'], { reject: false, timeout: 1000 });
    if (code === 'ENOENT') return unavailable('nft is not installed (Debian package nftables)');
    return failed ? unavailable(`nft does not work here: ${String(stderr).split('\n')[0]}`) : available;
  },
  create: ({ config, facts }, { log }) =>
    new NftablesProxy({ ...config, podCIDRs: facts.podCIDRs, families: config.families ?? familiesOf(facts.serviceCIDRs), log }),
});
