import { annotationsCapability, type PluginConfig } from '@oarlock/network-cni/cni/protocol';
import { pluginType } from './cni-handler.ts';
import type { CalicoConfig } from '../config/calico-config.ts';

const portmap: PluginConfig = { type: 'portmap', capabilities: { portMappings: true }, snat: true };
const bandwidth: PluginConfig = { type: 'bandwidth', capabilities: { bandwidth: true } };

/** The plugins that come after the one that connects: those of them that are there. */
export function chainedPlugins(
  { bandwidth: wanted }: Pick<CalicoConfig, 'bandwidth'>,
  found: ReadonlySet<string>,
): readonly PluginConfig[] {
  return [...(found.has('portmap') ? [portmap] : []), ...(wanted !== 'off' && found.has('bandwidth') ? [bandwidth] : [])];
}

export const ownPlugin = (socket: string): PluginConfig => ({ type: pluginType, socket, capabilities: { [annotationsCapability]: true } });

/** What Calico's own manifests put into the conflist for the datastore in Kubernetes. */
export function upstreamPlugin(
  { kubeconfig, ipam, logLevel }: NonNullable<CalicoConfig['upstream']>,
  nodeName: string,
  mtu: number | undefined,
): PluginConfig {
  return {
    type: 'calico',
    log_level: logLevel,
    log_file_path: '/var/log/calico/cni/cni.log',
    datastore_type: 'kubernetes',
    nodename: nodeName,
    ...(mtu !== undefined && { mtu }),
    ipam: ipam === 'calico-ipam' ? { type: ipam } : { type: ipam, subnet: 'usePodCidr' },
    policy: { type: 'k8s' },
    kubernetes: { kubeconfig },
  };
}

/** For runtimes that know CNI 1.1, where all plugins of the list do: they call STATUS and GC then. */
export const supportedVersions = ({ own, conflist }: { readonly own: string; readonly conflist: string }) =>
  own > conflist ? { cniVersions: [conflist, own] } : {};
