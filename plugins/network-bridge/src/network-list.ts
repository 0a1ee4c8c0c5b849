import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { NetworkError, type NodeNetwork } from '@oarlock/spi/network';
import type { NetworkList, PluginConfig } from './cni-protocol.ts';

export interface BridgeOptions {
  /** Name of the network in conflist and IPAM. */
  readonly name: string;
  readonly bridge: string;
  readonly mtu?: number;
  readonly hairpin: boolean;
  readonly isGateway: boolean;
  /** The bridge plugin's own masquerading, one chain per pod. */
  readonly ipMasq: boolean;
  readonly bandwidth: boolean;
  readonly ipamDir: string;
}

export function familyOf(cidr: string): 4 | 6 {
  const [base = '', bits = '', rest] = cidr.split('/');
  const family = isIP(base);
  if (family === 0 || rest !== undefined || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
    throw new NetworkError('InvalidConfig', `not a range of addresses: ${JSON.stringify(cidr)}`);
  return family as 4 | 6;
}

/** The plugins of the network, in the order of ADD. @throws NetworkError `InvalidConfig` */
export function networkPlugins(
  { bridge, mtu, hairpin, isGateway, ipMasq, bandwidth, ipamDir }: BridgeOptions,
  node: Pick<NodeNetwork, 'podCIDRs' | 'mtu'>,
): readonly PluginConfig[] {
  if (node.podCIDRs.length === 0) throw new NetworkError('InvalidConfig', 'the node has no range for pods yet');
  const ranges = ([4, 6] as const)
    .map((family) => node.podCIDRs.filter((cidr) => familyOf(cidr) === family))
    .filter((set) => set.length > 0);
  const wanted = mtu ?? node.mtu;
  return [
    {
      type: 'bridge',
      bridge,
      isGateway,
      ipMasq,
      hairpinMode: hairpin,
      // the node may have been given another range than the bridge was made for
      forceAddress: isGateway,
      ...(wanted !== undefined && { mtu: wanted }),
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

/** Puts the list where runtimes that call CNI themselves look. Whole or not at all; untouched when it is there already. */
export async function writeConflist(directory: string, file: string, list: NetworkList): Promise<void> {
  const path = join(directory, file);
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  await mkdir(directory, { recursive: true, mode: 0o755 });
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return; // a rewrite makes runtimes load it again
  const temporary = join(directory, `.${file}.${randomUUID()}`);
  await writeFile(temporary, text, { mode: 0o600, flag: 'wx' });
  await rename(temporary, path);
}

/** A network configuration that runtimes take before ours: they go by the order of names. */
export async function conflistBefore(directory: string, file: string): Promise<string | undefined> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => /\.(conflist|conf|json)$/.test(name) && !name.startsWith('.'))
    .sort()
    .find((name) => name < file);
}
