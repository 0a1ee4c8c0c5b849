import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export type Family = 'ip' | 'ip6';
export const table = 'oarlock-services';
/** A bit of the packet mark: this packet leaves with the node's address. */
const masqueradeBit = '0x4000';

export interface RulesetOptions {
  readonly family: Family;
  /** Ranges of pods: what does not come from them and goes to a cluster address is masqueraded. */
  readonly podCIDRs: readonly string[];
  /** Also masquerade pods of this node: needed where bridged traffic does not pass the rules on its way back. */
  readonly masqueradeAll: boolean;
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
export const serviceChain = (key: string) => `svc-${digest(key)}`;
export const endpointChain = (key: string, { ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>) => `ep-${digest(`${key} ${ip} ${port}`)}`;
const affinitySet = (chain: string) => `aff-${chain.slice(3)}`;
const ofFamily = (family: Family) => (address: string) => isIPv6(address.split('/')[0] ?? '') === (family === 'ip6');

/** The fixed part: where packets enter and the maps that lead to each Service. Replaces whatever the table held. */
export function baseRules({ family }: RulesetOptions): string {
  const address = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  return `table ${family} ${table} {}
delete table ${family} ${table}
table ${family} ${table} {
  map services { type ${address} . inet_proto . inet_service : verdict; }
  map node-ports { type inet_proto . inet_service : verdict; }
  set unserved { type ${address} . inet_proto . inet_service; }
  set unserved-node-ports { type inet_proto . inet_service; }
  chain masquerade-mark { meta mark set meta mark or ${masqueradeBit}; }
  chain dispatch {
    ${family} daddr . meta l4proto . th dport vmap @services
    fib daddr type local meta l4proto . th dport vmap @node-ports
  }
  chain refuse {
    ${family} daddr . meta l4proto . th dport @unserved reject
    fib daddr type local meta l4proto . th dport @unserved-node-ports reject
  }
  chain prerouting { type nat hook prerouting priority dstnat; policy accept; jump dispatch; }
  chain output { type nat hook output priority -100; policy accept; jump dispatch; }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    meta mark and ${masqueradeBit} != ${masqueradeBit} return
    meta mark set meta mark xor ${masqueradeBit}
    masquerade fully-random
  }
  chain refuse-input { type filter hook input priority filter - 10; policy accept; ct state new jump refuse; }
  chain refuse-forward { type filter hook forward priority filter - 10; policy accept; ct state new jump refuse; }
  chain refuse-output { type filter hook output priority filter - 10; policy accept; ct state new jump refuse; }
}
`;
}

/** What of a port is in the kernel: enough to change or remove it later. */
export interface Programmed {
  readonly port: ServicePort;
  readonly endpoints: readonly ProxyEndpoint[];
}

interface Door {
  readonly map: 'services' | 'node-ports';
  readonly unserved: 'unserved' | 'unserved-node-ports';
  readonly key: string;
  readonly chain: string;
  readonly open: boolean;
}

/** The addresses of a port as elements of the maps, each with the chain it leads to. */
function doors(port: ServicePort, family: Family): readonly Door[] {
  const mine = ofFamily(family);
  const proto = port.protocol.toLowerCase();
  const inner = eligible(port, family, false);
  const outer = eligible(port, family, true);
  const at = (ip: string, chain: string, open: boolean): Door => ({
    map: 'services',
    unserved: 'unserved',
    key: `${ip} . ${proto} . ${port.port}`,
    chain,
    open,
  });
  const chain = serviceChain(port.key);
  return [
    ...port.clusterIPs.filter(mine).map((ip) => at(ip, chain, inner.length > 0)),
    ...[...port.externalIPs, ...port.loadBalancerIPs].filter(mine).map((ip) => at(ip, `ext-${chain.slice(4)}`, outer.length > 0)),
    ...(port.nodePort === undefined
      ? []
      : [
          {
            map: 'node-ports',
            unserved: 'unserved-node-ports',
            key: `${proto} . ${port.nodePort}`,
            chain: `ext-${chain.slice(4)}`,
            open: outer.length > 0,
          } satisfies Door,
        ]),
  ];
}

function eligible({ endpoints, internalLocal, externalLocal }: ServicePort, family: Family, external: boolean): readonly ProxyEndpoint[] {
  const mine = ofFamily(family);
  return endpoints.filter(({ ip, local }) => mine(ip) && (local || !(external ? externalLocal : internalLocal)));
}

/**
 * nft commands in the order they have to run in: what one Service gives up another may take in the same transaction, a chain is filled before
 * a packet can come to it, and emptied before it goes.
 */
export interface Steps {
  readonly release: string[];
  readonly build: string[];
  readonly open: string[];
  readonly drop: string[];
}
export const noSteps = (): Steps => ({ release: [], build: [], open: [], drop: [] });
export const inOrder = ({ release, build, open, drop }: Steps): readonly string[] => [...release, ...build, ...open, ...drop];

/** Adds the commands that bring one port from what is programmed to what is wanted. They are part of one transaction. */
export function portRules(
  before: Programmed | undefined,
  wanted: ServicePort | undefined,
  options: RulesetOptions,
  { release, build, open, drop }: Steps,
): void {
  const { family } = options;
  const t = `${family} ${table}`;
  const key = wanted?.key ?? before?.port.key ?? '';
  const oldDoors = before === undefined ? [] : doors(before.port, family);
  const newDoors = wanted === undefined ? [] : doors(wanted, family);
  const newEndpoints = wanted === undefined ? [] : wanted.endpoints.filter(({ ip }) => ofFamily(family)(ip));
  const oldEndpoints = (before?.endpoints ?? []).filter(({ ip }) => ofFamily(family)(ip));
  const had = oldDoors.length > 0;
  const has = newDoors.length > 0;
  const chains = [serviceChain(key), `ext-${serviceChain(key).slice(4)}`];
  const doorText = ({ map, key: element, chain, open: isOpen }: Door) => `${map} ${element} ${isOpen ? chain : ''}`;
  const kept = new Set(newDoors.map(doorText));
  const present = new Set(oldDoors.map(doorText));
  for (const door of oldDoors) {
    if (kept.has(doorText(door))) continue;
    release.push(door.open ? `delete element ${t} ${door.map} { ${door.key} }` : `delete element ${t} ${door.unserved} { ${door.key} }`);
  }
  // an endpoint's chain is made anew when anything that stands in it changes
  const sameChains = had && before?.port.affinitySeconds === wanted?.affinitySeconds && before?.port.protocol === wanted?.protocol;
  const staying = new Set(has && sameChains ? newEndpoints.map((endpoint) => endpointChain(key, endpoint)) : []);
  const known = new Set(had ? oldEndpoints.map((endpoint) => endpointChain(key, endpoint)) : []);
  if (had) for (const chain of chains) build.push(`flush chain ${t} ${chain}`);
  const leaving = had ? oldEndpoints.map((endpoint) => endpointChain(key, endpoint)).filter((chain) => !staying.has(chain)) : [];
  const returning = new Set(has ? newEndpoints.map((endpoint) => endpointChain(key, endpoint)) : []);
  for (const chain of leaving) {
    // one that comes back at once has to be gone before it is built
    const lines = returning.has(chain) ? build : drop;
    lines.push(`flush chain ${t} ${chain}`, `delete chain ${t} ${chain}`);
    if (before?.port.affinitySeconds !== undefined) lines.push(`delete set ${t} ${affinitySet(chain)}`);
  }
  if (has && wanted !== undefined) {
    if (!had) for (const chain of chains) build.push(`add chain ${t} ${chain}`);
    for (const endpoint of newEndpoints) {
      const chain = endpointChain(key, endpoint);
      if (!(known.has(chain) && staying.has(chain))) build.push(...endpointRules(wanted, endpoint, options));
    }
    build.push(...balance(wanted, chains[0] ?? '', false, options), ...balance(wanted, chains[1] ?? '', true, options));
  }
  for (const door of newDoors) {
    if (present.has(doorText(door))) continue;
    open.push(
      door.open ? `add element ${t} ${door.map} { ${door.key} : goto ${door.chain} }` : `add element ${t} ${door.unserved} { ${door.key} }`,
    );
  }
  if (had && !has) for (const chain of chains) drop.push(`delete chain ${t} ${chain}`);
}

function endpointRules(port: ServicePort, endpoint: ProxyEndpoint, { family }: RulesetOptions): string[] {
  const t = `${family} ${table}`;
  const chain = endpointChain(port.key, endpoint);
  const set = affinitySet(chain);
  const target = family === 'ip6' ? `[${endpoint.ip}]:${endpoint.port}` : `${endpoint.ip}:${endpoint.port}`;
  const type = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  return [
    `add chain ${t} ${chain}`,
    ...(port.affinitySeconds === undefined
      ? []
      : [`add set ${t} ${set} { type ${type}; flags dynamic,timeout; timeout ${port.affinitySeconds}s; }`]),
    // a pod that reaches itself through the Service has to see the answer come from the Service
    `add rule ${t} ${chain} ${family} saddr ${endpoint.ip} jump masquerade-mark`,
    ...(port.affinitySeconds === undefined ? [] : [`add rule ${t} ${chain} update @${set} { ${family} saddr }`]),
    `add rule ${t} ${chain} meta l4proto ${port.protocol.toLowerCase()} dnat to ${target}`,
  ];
}

function balance(port: ServicePort, chain: string, external: boolean, options: RulesetOptions): string[] {
  const { family, podCIDRs, masqueradeAll } = options;
  const t = `${family} ${table}`;
  const endpoints = eligible(port, family, external);
  const pods = podCIDRs.filter(ofFamily(family));
  const lines: string[] = [];
  if (external && port.loadBalancerSourceRanges.length > 0 && port.loadBalancerIPs.length > 0) {
    const addresses = port.loadBalancerIPs.filter(ofFamily(family));
    const ranges = port.loadBalancerSourceRanges.filter(ofFamily(family));
    if (addresses.length > 0)
      lines.push(
        `add rule ${t} ${chain} ${family} daddr { ${addresses.join(', ')} } ${ranges.length > 0 ? `${family} saddr != { ${ranges.join(', ')} } ` : ''}drop`,
      );
  }
  if (masqueradeAll || (external && !port.externalLocal)) lines.push(`add rule ${t} ${chain} jump masquerade-mark`);
  else if (!external && pods.length > 0)
    lines.push(`add rule ${t} ${chain} ${family} saddr != { ${pods.join(', ')} } jump masquerade-mark`);
  if (port.affinitySeconds !== undefined) {
    for (const endpoint of endpoints)
      lines.push(
        `add rule ${t} ${chain} ${family} saddr @${affinitySet(endpointChain(port.key, endpoint))} goto ${endpointChain(port.key, endpoint)}`,
      );
  }
  if (endpoints.length > 0) {
    lines.push(
      `add rule ${t} ${chain} numgen random mod ${endpoints.length} vmap { ${endpoints.map((endpoint, index) => `${index} : goto ${endpointChain(port.key, endpoint)}`).join(', ')} }`,
    );
  }
  return lines;
}
