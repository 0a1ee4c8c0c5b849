import type { PluginConfig } from '@oarlock/network-cni/cni/protocol';
import { familyOf } from '@oarlock/network-cni/routing/cidr';
import { NetworkError, type NodeNetwork } from '@oarlock/spi/network';

export interface BridgeOptions {
  /** The name of the network in the conflist and in the IPAM data. */
  readonly name: string;
  readonly bridge: string;
  readonly mtu?: number;
  readonly hairpin: boolean;
  readonly isGateway: boolean;
  /** True if the bridge plugin masquerades, with one chain per pod. */
  readonly ipMasq: boolean;
  readonly bandwidth: boolean;
  readonly ipamDir: string;
}

/**
 * Returns the configurations of the bridge network's CNI plugins in the order of the CNI command ADD: bridge, portmap and, if enabled, bandwidth.
 * @throws NetworkError `InvalidConfig` if the node has no pod CIDR
 */
export function networkPlugins(
  { bridge, mtu, hairpin, isGateway, ipMasq, bandwidth, ipamDir }: BridgeOptions,
  node: Pick<NodeNetwork, 'podCIDRs' | 'mtu'>,
): readonly PluginConfig[] {
  if (node.podCIDRs.length === 0) throw new NetworkError('InvalidConfig', 'the node has no pod CIDR yet');
  const ranges = ([4, 6] as const)
    .map((family) => node.podCIDRs.filter((cidr) => familyOf(cidr) === family))
    .filter((set) => set.length > 0);
  const podMtu = mtu ?? node.mtu;
  return [
    {
      type: 'bridge',
      bridge,
      isGateway,
      ipMasq,
      hairpinMode: hairpin,
      // the node's range may differ from the one that the bridge was created for
      forceAddress: isGateway,
      ...(podMtu !== undefined && { mtu: podMtu }),
      ipam: {
        type: 'host-local',
        dataDir: ipamDir,
        ranges: ranges.map((set) => set.map((subnet) => ({ subnet }))),
        routes: ranges.map((set) => ({ dst: familyOf(set[0] ?? '') === 4 ? '0.0.0.0/0' : '::/0' })),
      },
    },
    { type: 'portmap', capabilities: { portMappings: true }, snat: true },
    ...(bandwidth ? [{ type: 'bandwidth', capabilities: { bandwidth: true } }] : []),
  ];
}
