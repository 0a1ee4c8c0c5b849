import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { policyContract } from '@oarlock/spi/policy.contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { trace } from '@opentelemetry/api';
import { execa } from 'execa';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { PodNetwork } from './pod-network.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else
  policyContract('policy-nftables', async () => {
    const network = await PodNetwork.begin();
    const api = memoryApi({ clock: new FakeClock() });
    const options = { informers: api.informers, clock: systemClock, log: silentLogger, tracer: trace.getTracer('test') };
    let policies = new NftablesPolicies(options);
    await policies.start();
    return {
      policies,
      nodeName: 'here',
      client: api.client(),
      settle: () => api.settle(),
      families: [4, 6],
      address: (end, family) => network.address(end, family),
      send: (packets) => network.send(packets),
      converse: (packet) => network.converse(packet),
      restart: async () => {
        await policies.stop();
        policies = new NftablesPolicies(options);
        await policies.start();
        return policies;
      },
      census: async () => {
        const { stdout } = await execa('nft', ['-j', 'list', 'table', 'inet', 'oarlock-policy']);
        const counts: Record<string, number> = {};
        for (const entry of (JSON.parse(stdout) as { nftables: Record<string, { elem?: unknown[] }>[] }).nftables)
          for (const [kind, { elem }] of Object.entries(entry)) {
            counts[kind] = (counts[kind] ?? 0) + 1;
            counts['elements'] = (counts['elements'] ?? 0) + (elem?.length ?? 0);
          }
        return counts;
      },
      dispose: async () => {
        await policies.stop();
        await policies.clear();
        await network.close();
        await api.stop();
      },
    };
  });
