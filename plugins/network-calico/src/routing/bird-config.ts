import type { CalicoConfig } from '../config/calico-config.ts';

export interface BgpNode {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly reflects: boolean;
}
export interface BirdOptions {
  readonly own: BgpNode;
  readonly others: readonly BgpNode[];
  /** The routes that this node announces: those of its blocks and of its borrowed addresses. */
  readonly announced: readonly string[];
  /** The CIDRs of the pools. Routes outside of the pools are neither exported nor imported. */
  readonly pools: readonly string[];
  readonly bgp: CalicoConfig['bgp'];
  readonly interfacePrefix: string;
  readonly logFile: string;
}
const families = [4, 6] as const;
const logLimit = 1 << 20;
const ofFamily = (texts: readonly string[], family: 4 | 6) => texts.filter((text) => text.includes(':') === (family === 6));

/** Returns the BIRD symbol of a node. Node names are DNS names, but BIRD symbols consist of letters, digits and underscores. */
const symbol = (name: string) => `n_${name.replaceAll(/[^a-z0-9]/g, (character) => `_${character.charCodeAt(0).toString(16)}_`)}`;

/** Returns the BGP peers of a node, each with a flag whether the peer is a route reflector client. */
export function neighborsOf(
  own: BgpNode,
  others: readonly BgpNode[],
  bgp: CalicoConfig['bgp'],
): readonly { readonly node: BgpNode; readonly isClient: boolean }[] {
  const reflected = bgp.reflectors !== undefined && [own, ...others].some(({ reflects }) => reflects);
  if (reflected)
    return others.filter((node) => own.reflects || node.reflects).map((node) => ({ node, isClient: own.reflects && !node.reflects }));
  return bgp.mesh ? others.map((node) => ({ node, isClient: false })) : [];
}

/** Returns the BGP router id: the node's IPv4 address, or a hash of its IPv6 address if it has no IPv4 address. */
function routerId(addresses: readonly string[]): string {
  const [address] = ofFamily(addresses, 4);
  if (address !== undefined) return address;
  const sum = [...(addresses[0] ?? '')].reduce((hash, character) => (Math.imul(hash, 31) + character.charCodeAt(0)) >>> 0, 7);
  return [10, (sum >>> 16) & 255, (sum >>> 8) & 255, sum & 255 || 1].join('.');
}

/** Returns the configuration of BIRD 2. With graceful restart, the kernel and the peers keep the routes while BIRD restarts after a crash. */
export function birdConfig({ own, others, announced, pools, bgp, interfacePrefix, logFile }: BirdOptions): string {
  const neighbors = neighborsOf(own, others, bgp);
  const inPools = (family: 4 | 6) => {
    const ranges = ofFamily(pools, family);
    return ranges.length === 0 ? 'false' : `net ~ [ ${ranges.map((range) => `${range}+`).join(', ')} ]`;
  };
  const session = (
    name: string,
    { family, address, as }: { readonly family: 4 | 6; readonly address: string; readonly as: number },
    options: readonly string[],
  ) => `protocol bgp ${name}_${family} {
  local ${ofFamily(own.addresses, family)[0]} port ${bgp.port} as ${bgp.asNumber};
  neighbor ${address} port ${bgp.port} as ${as};
  graceful restart on;
  connect delay time 1;
  connect retry time 5;
  error wait time 1, 15;
${options.map((option) => `  ${option};\n`).join('')}  ipv${family} {
    import where ${inPools(family)};
    export where ${inPools(family)} && (source = RTS_STATIC || source = RTS_BGP);
  };
}`;
  const speaks = (family: 4 | 6) => ofFamily(own.addresses, family).length > 0;
  return `${[
    `# Written by network-calico: changes are lost.`,
    `log "${logFile}" ${logLimit} "${logFile}.1" { warning, error, fatal, bug };`,
    `router id ${routerId(own.addresses)};`,
    'graceful restart wait 30;',
    'protocol device { scan time 10; }',
    `protocol direct { ipv4; ipv6; interface "-${interfacePrefix}*", "*"; }`,
    ...families.flatMap((family) => [
      `protocol kernel kernel${family} {
  scan time 60;
  ipv${family} { import none; export where source = RTS_BGP; };
}`,
      `protocol static own${family} {
  ipv${family};
${ofFamily(announced, family)
  .map((range) => `  route ${range} blackhole;\n`)
  .join('')}}`,
    ]),
    ...neighbors.flatMap(({ node, isClient }) =>
      families.flatMap((family) => {
        const [address] = ofFamily(node.addresses, family);
        return address === undefined || !speaks(family)
          ? []
          : [session(symbol(node.name), { family, address, as: bgp.asNumber }, isClient ? ['rr client'] : [])];
      }),
    ),
    ...bgp.peers.flatMap(({ address, asNumber }, at) => {
      const family = address.includes(':') ? 6 : 4;
      return speaks(family) ? [session(`router_${at}`, { family, address, as: asNumber }, [])] : [];
    }),
  ].join('\n')}\n`;
}
