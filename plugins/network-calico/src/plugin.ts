import { networkParts } from '@oarlock/network-cni/exclusive-parts';
import { access, constants } from 'node:fs/promises';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { optional } from '@oarlock/kernel/slot';
import { findPlugins } from '@oarlock/network-cni/cni/plugins';
import { Client, Informers } from '@oarlock/spi/client';
import { Network } from '@oarlock/spi/network';
import { CalicoNetwork } from './calico-network.ts';
import { calicoConfig } from './config/calico-config.ts';
import { UpstreamNetwork } from './upstream-network.ts';

const podCIDR = '10.244.0.0/16';
const serviceCIDR = '10.96.0.0/16';
const programs = {
  ip: ['/sbin/ip', '/usr/sbin/ip', '/bin/ip', '/usr/bin/ip'],
  nft: ['/usr/sbin/nft', '/sbin/nft', '/usr/local/sbin/nft'],
  nsenter: ['/usr/bin/nsenter', '/bin/nsenter'],
};

async function missingPrograms(): Promise<readonly string[]> {
  const has = (path: string) =>
    access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
  const found = await Promise.all(
    Object.entries(programs).map(async ([name, paths]) => ((await Promise.all(paths.map(has))).some(Boolean) ? [] : [name])),
  );
  return found.flat();
}

export default Network.plugin({
  id: 'network-calico',
  config: calicoConfig,
  needs: { informers: optional(Informers), client: optional(Client) },
  declares: { namespace: 'pod', podCIDR, serviceCIDR },
  async probe({ binDirs, upstream, routes, bgp }) {
    if (process.platform !== 'linux') return unavailable(`network namespaces require Linux; the platform is ${process.platform}`);
    if (process.getuid?.() !== 0) return unavailable('requires root to create network interfaces');
    if (upstream) {
      const { missing } = await findPlugins(binDirs, ['calico', upstream.ipam]);
      if (missing.length > 0)
        return unavailable(`CNI plugins not found: ${missing.join(', ')} in ${binDirs.join(', ')}; upstream requires Calico's own`);
      return available;
    }
    const missing = await missingPrograms();
    if (missing.length > 0) return unavailable(`programs not found: ${missing.join(', ')} (Debian: iproute2, nftables, util-linux)`);
    if (routes === 'bgp') {
      const bird = await access(bgp.program, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (!bird) return unavailable(`routes: bgp requires BIRD 2; ${bgp.program} not found (Debian: bird2)`);
    }
    return available;
  },
  exclusiveParts: (use) => ["the kernel's routes to pods", ...networkParts(use)],
  create({ config, informers, client }, { log, clock, tracer, dataDir }) {
    const api = informers && client && { informers, client };
    const ownAddresses = config.upstream !== undefined || (config.addresses === 'blocks' && api !== undefined);
    const traits = { namespace: 'pod', ownAddresses, podCIDR, serviceCIDR } as const;
    const context = { log, clock, tracer, dataDir };
    if (config.upstream) return new UpstreamNetwork(config, traits, context);
    return new CalicoNetwork(config, { traits, context, api });
  },
});
