import { nftAvailability } from '@oarlock/nftables/availability';
import { kernelProxyConfig, kernelProxyOptions, kernelProxyParts } from '@oarlock/service-rules/kernel-proxy-config';
import { Cluster } from '@oarlock/spi/cluster';
import { Proxy } from '@oarlock/spi/proxy';
import { nftablesProxy } from './nftables-proxy.ts';

/** Proxies Services in the kernel with nftables. Requires root on Linux. */
export default Proxy.plugin({
  id: 'proxy-nftables',
  config: kernelProxyConfig,
  needs: { facts: Cluster },
  probe: nftAvailability,
  exclusiveParts: () => kernelProxyParts,
  create: ({ config, facts }, { log }) => nftablesProxy({ ...kernelProxyOptions(config, facts), log }),
});
