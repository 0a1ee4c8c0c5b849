import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { census } from '@oarlock/nftables/census';
import { policyContract } from '@oarlock/spi/policy.contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { trace } from '@opentelemetry/api';
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
      census: () => census('inet', 'oarlock-policy'),
      dispose: async () => {
        await policies.stop();
        await policies.clear();
        await network.close();
        await api.stop();
      },
    };
  });
