import { namespaces, networkPolicies, pods as podResource } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { nft } from '@oarlock/nftables/nft';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { DatagramPods } from './support/datagram-pods.ts';
import { Node } from './support/node.ts';

const hostPort = 38_080;
/** The addresses of the node at which the host port of the second pod is reached. */
const nodeAddress = { 4: '10.98.9.1', 6: 'fd00:98:9::1' } as const;
/** The translation of the CNI plugin portmap. */
const translation = `table inet host-ports {
  chain prerouting {
    type nat hook prerouting priority dstnat;
    ip daddr ${nodeAddress[4]} udp dport ${hostPort} dnat ip to 10.98.0.2:9000
    ip6 daddr ${nodeAddress[6]} udp dport ${hostPort} dnat ip6 to [fd00:98::2]:9000
  }
}
`;

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('the host port of an isolated pod', () => {
    let api: MemoryApi;
    let informers: SharedInformerFactory;
    let policies: NftablesPolicies;
    const pods = new DatagramPods();

    beforeEach(async () => {
      api = memoryApi({ clock: new FakeClock() });
      api.seed(
        namespaces,
        { metadata: { name: 'friends', labels: { friends: 'yes' } } },
        { metadata: { name: 'others' } },
        { metadata: { name: 'closed' } },
      );
      const from = [{ namespaceSelector: { matchLabels: { friends: 'yes' } } }];
      api.seed(networkPolicies, {
        metadata: { namespace: 'closed', name: 'friends' },
        spec: { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from, ports: [{ protocol: 'UDP', port: 9000 }] }] },
      });
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

    it('is reached by the pods that its policies allow, and by no others, as its own port', async () => {
      const node = Node.here();
      for (const address of Object.values(nodeAddress)) node.ip('address', 'add', address, 'dev', 'lo');
      await nft(translation);
      const [friend, pod, other] = [await pods.connect(node, 1), await pods.connect(node, 2), await pods.connect(node, 3)];
      const ipsOf = (at: number) => [`10.98.0.${at}`, `fd00:98::${at}`];
      const labels = {};
      for (const [at, namespace] of [
        [1, 'friends'],
        [3, 'others'],
      ] as const)
        api.seed(podResource, {
          metadata: { namespace, name: 'pod', uid: namespace },
          spec: { nodeName: 'here', containers: [] },
          status: { phase: 'Running', podIPs: ipsOf(at).map((ip) => ({ ip })) },
        });
      await policies.protect({ namespace: 'closed', name: 'pod', uid: 'pod', labels, ips: ipsOf(2) });
      for (const family of [4, 6] as const) {
        other.send(nodeAddress[family], family, `other-host-port-${family}`, hostPort);
        other.send(family === 4 ? '10.98.0.2' : 'fd00:98::2', family, `other-own-port-${family}`);
        friend.send(nodeAddress[family], family, `friend-${family}`, hostPort);
        await friend.until(`answer of friend-${family}`);
      }
      // the packets of the other pod come before those of the pod to it, which have their own order
      for (const family of [4, 6] as const) {
        pod.send(family === 4 ? '10.98.0.3' : 'fd00:98::3', family, `last-${family}`);
        await other.until(`received last-${family}`);
        await pod.until(`answer of last-${family}`);
      }
      expect(pod.received.filter((line) => line.startsWith('received')).sort()).toEqual(['received friend-4', 'received friend-6']);
    });
  });
