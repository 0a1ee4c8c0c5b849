import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { nodes } from '@oarlock/api/resources';
import { networkContract } from '@oarlock/spi/network/contract';
import { openCalico } from './support/calico-fixture.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  ip('link', 'set', 'lo', 'up');
  networkContract("network-calico, addresses of the node's own pod CIDR", () => openCalico());
  networkContract('network-calico, addresses of IPAM blocks in the API', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    api.seed(nodes, { metadata: { name: 'n1' } });
    return openCalico({ api: { client: api.client(), informers: api.informers, stop: () => api.stop() } });
  });
}
