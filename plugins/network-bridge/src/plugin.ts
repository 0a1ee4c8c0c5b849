import { optional } from '@oarlock/kernel/slot';
import { available, unavailable } from '@oarlock/kernel/plugin';
import { Informers } from '@oarlock/spi/client';
import { Network } from '@oarlock/spi/network';
import { networkParts } from '@oarlock/network-cni/exclusive-parts';
import { z } from 'zod';
import { BridgeNetwork } from './bridge-network.ts';
import { findPlugins } from '@oarlock/network-cni/cni/plugins';
import { NodePeers } from '@oarlock/network-cni/routing/node-peers';
import { NodeRoutes } from '@oarlock/network-cni/routing/node-routes';

const podCIDR = '10.244.0.0/16';
const serviceCIDR = '10.96.0.0/16';
const directory = z.string().startsWith('/', 'must be an absolute path');

export default Network.plugin({
  id: 'network-bridge',
  config: z.strictObject({
    binDirs: z.array(directory).min(1).default(['/opt/cni/bin', '/usr/lib/cni']),
    confDir: directory.nullable().default('/etc/cni/net.d'),
    confFile: z
      .string()
      .regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]*\.conflist$/, 'must be the name of a .conflist file')
      .default('10-oarlock.conflist'),
    name: z
      .string()
      .regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$/, 'must be a name of letters, digits, "_", "." and "-"')
      .default('oarlock'),
    bridge: z
      .string()
      .regex(/^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$/, 'must be the name of an interface, at most 15 characters')
      .default('oarlock0'),
    mtu: z.int().min(576).max(65_535).optional(),
    ipMasq: z.boolean().default(true),
    hairpin: z.boolean().default(true),
    isGateway: z.boolean().default(true),
    bandwidth: z.enum(['auto', 'on', 'off']).default('auto'),
    ipamDir: directory.optional(),
    timeoutSeconds: z.number().min(1).max(600).default(60),
    gcGraceSeconds: z.number().min(0).max(86_400).default(300),
    /** True if packets of pods with source addresses that are not the pod's are dropped. */
    sourceAddressFilter: z.boolean().default(true),
    cniCacheDir: directory.default('/var/lib/cni'),
    /** The way to pods of other nodes: routes to their nodes (`direct`), a VXLAN (`vxlan`), or not managed by this plugin (`none`). */
    routes: z.enum(['direct', 'vxlan', 'none']).default('direct'),
    vxlan: z
      .strictObject({
        device: z
          .string()
          .regex(/^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$/, 'must be the name of an interface, at most 15 characters')
          .default('oarlock-vx'),
        id: z.int().min(1).max(0xff_ff_ff).default(1),
        port: z.int().min(1).max(65_535).default(8472),
      })
      .prefault({}),
  }),
  needs: { informers: optional(Informers) },
  declares: { namespace: 'pod', podCIDR, serviceCIDR },
  async probe({ binDirs }) {
    if (process.platform !== 'linux') return unavailable(`network namespaces require Linux; the platform is ${process.platform}`);
    if (process.getuid?.() !== 0) return unavailable('requires root to create network interfaces');
    const { missing } = await findPlugins(binDirs, ['bridge', 'host-local', 'portmap', 'loopback']);
    return missing.length === 0
      ? available
      : unavailable(`CNI plugins ${missing.join(', ')} not found in ${binDirs.join(', ')} (Debian: containernetworking-plugins)`);
  },
  exclusiveParts: ({ bridge, ...use }) => [`the bridge ${bridge}`, ...networkParts(use)],
  create({ config, informers }, { log, clock, tracer, dataDir }) {
    const { routes: mode, vxlan } = config;
    const routes =
      informers && mode !== 'none' ? new NodeRoutes({ mode, ...vxlan, peers: new NodePeers(informers), clock, log }) : undefined;
    return new BridgeNetwork(config, {
      traits: { namespace: 'pod', podCIDR, serviceCIDR },
      context: { log, clock, tracer, dataDir },
      routes,
    });
  },
});
