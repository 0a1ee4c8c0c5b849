import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { countObjects } from '@oarlock/nftables/object-counts';
import type { PolicyFixture } from '@oarlock/spi/policy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { trace } from '@opentelemetry/api';
import { NftablesPolicies } from '../../src/nftables-policies.ts';
import type { NetworkName } from './networks.ts';
import { PodNetwork } from './pod-network.ts';

/** Runs the plugin on one or two nodes, with pods of a network plugin on the first. Must be called in a network namespace of the test. */
export async function policyWorld(nodes: 1 | 2, network: NetworkName): Promise<PolicyFixture> {
  const pods = await PodNetwork.begin({ nodes, network });
  const api = memoryApi({ clock: new FakeClock() });
  const options = {
    informers: api.informers,
    client: api.client(),
    clock: systemClock,
    log: silentLogger,
    tracer: trace.getTracer('test'),
  };
  const { enterElsewhere } = pods;
  const elsewhere = enterElsewhere && new NftablesPolicies({ ...options, enter: enterElsewhere });
  let policies = new NftablesPolicies(options);
  await policies.start();
  await elsewhere?.start();
  return {
    policies,
    nodeName: 'here',
    ...(elsewhere && { otherNode: elsewhere }),
    client: api.client(),
    settle: () => api.settle(),
    families: [4, 6],
    address: (end, family) => pods.address(end, family),
    send: (packets) => pods.send(packets),
    connect: (packet) => pods.converse(packet),
    restart: async () => {
      await policies.stop();
      policies = new NftablesPolicies(options);
      await policies.start();
      return policies;
    },
    countResources: () => countObjects('inet', 'oarlock-policy'),
    dispose: async () => {
      await policies.stop();
      await elsewhere?.stop();
      await policies.clear();
      await pods.close();
      await api.stop();
    },
  };
}
