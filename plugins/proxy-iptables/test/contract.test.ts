import { silentLogger } from '@oarlock/primitives/logger';
import { kernelProxyContract } from '@oarlock/testing/network/kernel-proxy-contract';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { execa } from 'execa';
import { iptablesProxy } from '../src/iptables-proxy.ts';

/** Returns the number of rules and chains, of this proxy and of other programs. */
async function census(): Promise<Record<string, number>> {
  const lines = (await execa('iptables-save')).stdout.split('\n');
  return { chains: lines.filter((line) => line.startsWith(':')).length, rules: lines.filter((line) => line.startsWith('-A')).length };
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else kernelProxyContract('proxy-iptables', { make: (options) => iptablesProxy({ ...options, log: silentLogger }), census });
