import { namespaces, networkPolicies } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { DatagramPods } from './support/datagram-pods.ts';
import { Node } from './support/node.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('flows of an ended pod', () => {
    let api: MemoryApi;
    let informers: SharedInformerFactory;
    let policies: NftablesPolicies;
    const pods = new DatagramPods();

    beforeEach(async () => {
      api = memoryApi({ clock: new FakeClock() });
      api.seed(namespaces, { metadata: { name: 'open' } }, { metadata: { name: 'closed' } });
      api.seed(networkPolicies, { metadata: { namespace: 'closed', name: 'deny' }, spec: { podSelector: {}, policyTypes: ['Ingress'] } });
      informers = new SharedInformerFactory({ client: api.client(), clock: systemClock });
      informers.start();
      policies = new NftablesPolicies({ informers, client: api.client(), clock: systemClock, log: silentLogger, tracer: noTracer });
      policies.startForNode('here');
    });
    afterEach(async () => {
      await pods.end();
      await policies.stop();
      await policies.clear();
      await informers.stop();
      await api.stop();
    });

    it.each([
      { family: 4, address: '10.98.0.2' },
      { family: 6, address: 'fd00:98::2' },
    ] as const)('do not reach the next pod with its IPv$family address past its policies', async ({ family, address }) => {
      const node = Node.here();
      const [client, pod] = [await pods.connect(node, 1), await pods.connect(node, 2)];
      await policies.protect({ namespace: 'open', name: 'former', uid: 'former', labels: {}, ips: [address] });
      client.send(address, family, 'to-the-former-pod');
      await client.until('answer of to-the-former-pod');
      await policies.protect({ namespace: 'closed', name: 'next', uid: 'next', labels: {}, ips: [address] });
      client.send(address, family, 'to-the-next-pod');
      // packets of one sender to one receiver keep their order
      pod.send(family === 4 ? '10.98.0.1' : 'fd00:98::1', family, 'from-the-next-pod');
      await client.until('received from-the-next-pod');
      await pod.until('answer of from-the-next-pod');
      expect(pod.received).toEqual(['received to-the-former-pod', 'answer of from-the-next-pod']);
    });
  });
