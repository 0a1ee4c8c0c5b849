import { available, unavailable } from '@oarlock/kernel/plugin';
import { Informers } from '@oarlock/spi/client';
import { Policy } from '@oarlock/spi/policy';
import { execa } from 'execa';
import { z } from 'zod';
import { NftablesPolicies } from './nftables-policies.ts';

/** NetworkPolicies in the kernel, by nftables. Needs root on Linux. */
export default Policy.plugin({
  id: 'policy-nftables',
  config: z.strictObject({}),
  needs: { informers: Informers },
  async probe() {
    if (process.platform !== 'linux') return unavailable('nftables is a part of Linux');
    if (process.getuid?.() !== 0) return unavailable('changing packet rules needs root');
    const { failed, code, stderr } = await execa('nft', ['list', 'tables'], { reject: false, timeout: 1000 });
    if (code === 'ENOENT') return unavailable('nft is not installed (Debian package nftables)');
    return failed ? unavailable(`nft does not work here: ${String(stderr).split('\n')[0]}`) : available;
  },
  create: ({ informers }, { clock, log, tracer }) => new NftablesPolicies({ informers, clock, log, tracer }),
});
