import { nftAvailability } from '@oarlock/nftables/availability';
import { Client, Informers } from '@oarlock/spi/client';
import { Policy } from '@oarlock/spi/policy';
import { z } from 'zod';
import { NftablesPolicies } from './nftables-policies.ts';

/** Enforces NetworkPolicies in the kernel with nftables. Requires root on Linux. */
export default Policy.plugin({
  id: 'policy-nftables',
  config: z.strictObject({}),
  needs: { informers: Informers, client: Client },
  probe: nftAvailability,
  exclusiveParts: () => ["the kernel's rules for NetworkPolicies"],
  create: ({ informers, client }, { clock, log, tracer }) => new NftablesPolicies({ informers, client, clock, log, tracer }),
});
