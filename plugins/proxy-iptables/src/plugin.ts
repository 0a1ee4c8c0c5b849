import { execa } from 'execa';
import { familiesOf } from '@oarlock/service-rules/port-plan';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { Cluster } from '@oarlock/spi/cluster';
import { Proxy } from '@oarlock/spi/proxy';
import { z } from 'zod';
import { IptablesProxy } from './iptables-proxy.ts';

/** Services in the kernel, by iptables. Needs root on Linux. */
export default Proxy.plugin({
  id: 'proxy-iptables',
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
    if (process.platform !== 'linux') return unavailable('iptables is a part of Linux');
    if (process.getuid?.() !== 0) return unavailable('changing packet rules needs root');
    const { failed, code, stderr } = await execa('iptables', ['-w', '1', '-t', 'nat', '-S', 'PREROUTING'], {
      reject: false,
      timeout: 2000,
    });
    if (code === 'ENOENT') return unavailable('iptables is not installed (Debian package iptables)');
    return failed ? unavailable(`iptables does not work here: ${String(stderr).split('\n')[0]}`) : available;
  },
  create: ({ config, facts }, { log }) =>
    new IptablesProxy({ ...config, podCIDRs: facts.podCIDRs, families: config.families ?? familiesOf(facts.serviceCIDRs), log }),
});
