import { execa } from 'execa';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { kernelProxyConfig, kernelProxyOptions } from '@oarlock/service-rules/kernel-proxy-config';
import { Cluster } from '@oarlock/spi/cluster';
import { Proxy } from '@oarlock/spi/proxy';
import { iptablesProxy } from './iptables-proxy.ts';

/** Proxies Services in the kernel with iptables. Requires root on Linux. */
export default Proxy.plugin({
  id: 'proxy-iptables',
  config: kernelProxyConfig,
  needs: { facts: Cluster },
  async probe() {
    if (process.platform !== 'linux') return unavailable('iptables requires Linux');
    if (process.getuid?.() !== 0) return unavailable('requires root to change packet rules');
    const { failed, code, stderr } = await execa('iptables', ['-w', '1', '-t', 'nat', '-S', 'PREROUTING'], {
      reject: false,
      timeout: 2000,
    });
    if (code === 'ENOENT') return unavailable('iptables is not installed (Debian package iptables)');
    return failed ? unavailable(`iptables does not work on this machine: ${String(stderr).split('\n')[0]}`) : available;
  },
  create: ({ config, facts }, { log }) => iptablesProxy({ ...kernelProxyOptions(config, facts), log }),
});
