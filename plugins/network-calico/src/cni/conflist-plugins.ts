import { annotationsCapability, type PluginConfig } from '@oarlock/network-cni/cni/protocol';
import { pluginType } from './cni-handler.ts';
import type { CalicoConfig } from '../config/calico-config.ts';

const portmap: PluginConfig = { type: 'portmap', capabilities: { portMappings: true }, snat: true };
const bandwidth: PluginConfig = { type: 'bandwidth', capabilities: { bandwidth: true } };

/** Returns the configurations of the chained CNI plugins (portmap, bandwidth) that are installed and enabled. */
export function chainedPlugins(
  { bandwidth: wanted }: Pick<CalicoConfig, 'bandwidth'>,
  found: ReadonlySet<string>,
): readonly PluginConfig[] {
  return [...(found.has('portmap') ? [portmap] : []), ...(wanted !== 'off' && found.has('bandwidth') ? [bandwidth] : [])];
}

export const ownPlugin = (socket: string): PluginConfig => ({ type: pluginType, socket, capabilities: { [annotationsCapability]: true } });

/** Returns the configuration of the Calico CNI plugin that Calico's own manifests write into the conflist for the Kubernetes datastore. */
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

/**
 * Returns the conflist's `cniVersions` for CNI 1.1 if every CNI plugin of the list supports version 1.1; undefined otherwise. Runtimes of CNI 1.1
 * then call STATUS and GC.
 */
export const supportedVersions = ({ own, conflist }: { readonly own: string; readonly conflist: string }) =>
  own > conflist ? { cniVersions: [conflist, own] } : {};
