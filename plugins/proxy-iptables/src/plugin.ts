import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { kernelProxyConfig, kernelProxyOptions, kernelProxyParts } from '@oarlock/service-rules/kernel-proxy-config';
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
    try {
      const args = ['-w', '1', '-t', 'nat', '-S', 'PREROUTING'];
      const { exitCode, stderr, killed } = await runProgram(systemClock, 'iptables', args, { timeoutMs: 2000 });
      return exitCode === 0 ? available : unavailable(`iptables does not work on this machine: ${killed ?? stderr.split('\n')[0]}`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return unavailable('iptables is not installed (Debian package iptables)');
    }
  },
  exclusiveParts: () => kernelProxyParts,
  create: ({ config, facts }, { log }) => iptablesProxy({ ...kernelProxyOptions(config, facts), log }),
});
