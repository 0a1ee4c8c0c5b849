import { createHash } from 'node:crypto';
import type { PortChange } from '@oarlock/service-rules/kernel-proxy';
import { endpointName, ofFamily, buildPortRules, type Family, type PortRules } from '@oarlock/service-rules/port-rules';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export const table = 'oarlock-services';
/** The bit of the packet mark that selects packets for masquerading. */
const masqueradeBit = '0x4000';

export interface RulesetOptions {
  readonly family: Family;
  /** The address ranges of pods. Packets to a cluster IP from other addresses are masqueraded. */
  readonly podCIDRs: readonly string[];
  /** True to masquerade packets of this node's pods as well, which is required if replies over the bridge do not pass the rules. */
  readonly masqueradeAll: boolean;
  /** The ranges of the node addresses that accept node ports; an empty list means all addresses. */
  readonly nodePortAddresses: readonly string[];
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
const endpointChain = (id: string, { ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>) => `ep-${digest(`${id} ${ip} ${port}`)}`;
const affinitySet = (chain: string) => `aff-${chain.slice(3)}`;

/** Returns a single element, or an anonymous set of several elements. Anonymous sets are slow to create. */
const oneOf = (values: readonly string[]) => (values.length === 1 ? (values[0] ?? '') : `{ ${values.join(', ')} }`);

/** Returns the complete nftables table, which replaces the previous table: hooks, maps from frontends to chains, and the chains of all ports. */
export function tableText(ports: readonly ServicePort[], options: RulesetOptions): string {
  const { family, nodePortAddresses } = options;
  const own = nodePortAddresses.filter(ofFamily(family));
  // packets from loopback addresses cannot be routed back; without a range of this family no address matches
  const node =
    nodePortAddresses.length === 0
      ? `${family} daddr != ${family === 'ip' ? '127.0.0.0/8' : '::1'} fib daddr type local`
      : own.length > 0
        ? `${family} daddr ${oneOf(own)} fib daddr type local`
        : undefined;
  const onNode = (rule: string) => (node === undefined ? '' : `    ${node} meta l4proto . th dport ${rule}\n`);
  const address = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  const parts: string[] = [];
  const elements: Record<ElementPlace, string[]> = { services: [], 'node-ports': [], unserved: [], 'unserved-node-ports': [] };
  for (const port of ports) {
    const one = compilePort(port, options);
    if (!one) continue;
    for (const [chain, { rules, affinity }] of one.endpoints) {
      if (affinity !== undefined) parts.push(`  set ${affinitySet(chain)} { ${affinity} }\n`);
      parts.push(chainText(chain, rules));
    }
    for (const [chain, rules] of one.entries) parts.push(chainText(chain, rules));
    for (const { place, text } of one.frontends.values()) elements[place].push(text);
  }
  const held = (place: ElementPlace) => (elements[place].length === 0 ? '' : ` elements = { ${elements[place].join(', ')} }`);
  return `table ${family} ${table} {}
delete table ${family} ${table}
table ${family} ${table} {
  chain masquerade-mark { meta mark set meta mark or ${masqueradeBit}; }
${parts.join('')}  map services { type ${address} . inet_proto . inet_service : verdict;${held('services')} }
  map node-ports { type inet_proto . inet_service : verdict;${held('node-ports')} }
  set unserved { type ${address} . inet_proto . inet_service;${held('unserved')} }
  set unserved-node-ports { type inet_proto . inet_service;${held('unserved-node-ports')} }
  chain dispatch {
    ${family} daddr . meta l4proto . th dport vmap @services
${onNode('vmap @node-ports')}  }
  chain refuse {
    ${family} daddr . meta l4proto . th dport @unserved reject
${onNode('@unserved-node-ports reject')}  }
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

const chainText = (chain: string, rules: readonly string[]) => `  chain ${chain} {\n${rules.map((rule) => `    ${rule}\n`).join('')}  }\n`;

/**
 * The nft commands of a transaction in their order. The order lets one Service use the addresses that another releases, fills a chain before packets
 * can reach it, and removes all references to a chain before the chain is deleted.
 */
export interface Steps {
  readonly release: string[];
  readonly build: string[];
  readonly open: string[];
  readonly drop: string[];
}
export const noSteps = (): Steps => ({ release: [], build: [], open: [], drop: [] });
export const inOrder = ({ release, build, open, drop }: Steps): readonly string[] => [...release, ...build, ...open, ...drop];

type ElementPlace = 'services' | 'node-ports' | 'unserved' | 'unserved-node-ports';

/** The map elements and chains of one port. */
interface CompiledPort {
  readonly plan: PortRules;
  /** The chains of single endpoints, each with the declaration of its set of clients if session affinity is enabled. */
  readonly endpoints: ReadonlyMap<string, { readonly rules: readonly string[]; readonly affinity: string | undefined }>;
  /**
   * The chains that select an endpoint: one for cluster IPs, one for all other frontends, and one for node-local traffic to other frontends, which uses
   * all endpoints.
   */
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** The elements of the maps and sets in which packets are looked up. */
  readonly frontends: ReadonlyMap<string, { readonly place: ElementPlace; readonly key: string; readonly text: string }>;
}

function compilePort(port: ServicePort | undefined, options: RulesetOptions): CompiledPort | undefined {
  const { family } = options;
  const plan = port && buildPortRules(port, family);
  if (!plan) return undefined;
  const id = digest(plan.port.key);
  const { affinitySeconds } = plan;
  const affinity =
    affinitySeconds === undefined
      ? undefined
      : `type ${family === 'ip' ? 'ipv4_addr' : 'ipv6_addr'}; flags dynamic,timeout; timeout ${affinitySeconds}s;`;
  const chainOf = new Map(plan.reachableEndpoints.map((endpoint) => [endpoint, endpointChain(id, endpoint)]));
  const frontends = plan.frontends.map((frontend) => {
    const onNode = frontend.kind === 'node-port';
    const key = `${onNode ? '' : `${frontend.address} . `}${plan.protocol} . ${frontend.port}`;
    const chain = `${frontend.kind === 'cluster' ? 'svc' : 'ext'}-${id}`;
    const place: ElementPlace = frontend.hasEndpoints ? (onNode ? 'node-ports' : 'services') : onNode ? 'unserved-node-ports' : 'unserved';
    return { place, key, text: frontend.hasEndpoints ? `${key} : goto ${chain}` : key };
  });
  return {
    plan,
    endpoints: new Map(
      [...chainOf].map(([endpoint, chain]) => [chain, { rules: endpointRules(plan, { chain, endpoint, family }), affinity }]),
    ),
    entries: entryRules(plan, { id, chainOf }, options),
    frontends: new Map(frontends.map((frontend) => [`${frontend.place} ${frontend.text}`, frontend])),
  };
}

/** Adds the nft commands that change one port from the programmed state to the desired state within one transaction. */
export function portRules(change: PortChange, options: RulesetOptions, { release, build, open, drop }: Steps): void {
  const t = `${options.family} ${table}`;
  const before = compilePort(change.before, options);
  const after = compilePort(change.after, options);
  for (const [name, { place, key }] of before?.frontends ?? [])
    if (!after?.frontends.has(name)) release.push(`delete element ${t} ${place} { ${key} }`);
  // an endpoint's chain is recreated when its rules change
  const same =
    before && after && before.plan.affinitySeconds === after.plan.affinitySeconds && before.plan.protocol === after.plan.protocol;
  for (const chain of before?.entries.keys() ?? []) build.push(`flush chain ${t} ${chain}`);
  for (const [chain, { affinity }] of before?.endpoints ?? []) {
    if (same && after.endpoints.has(chain)) continue;
    // a chain that is recreated must be deleted before it is built
    const lines = after?.endpoints.has(chain) ? build : drop;
    lines.push(`flush chain ${t} ${chain}`, `delete chain ${t} ${chain}`);
    if (affinity !== undefined) lines.push(`delete set ${t} ${affinitySet(chain)}`);
  }
  for (const [chain, { rules, affinity }] of after?.endpoints ?? []) {
    if (same && before.endpoints.has(chain)) continue;
    build.push(`add chain ${t} ${chain}`);
    if (affinity !== undefined) build.push(`add set ${t} ${affinitySet(chain)} { ${affinity} }`);
    build.push(...rules.map((rule) => `add rule ${t} ${chain} ${rule}`));
  }
  for (const chain of after?.entries.keys() ?? []) if (before?.entries.has(chain) !== true) build.push(`add chain ${t} ${chain}`);
  for (const [chain, rules] of after?.entries ?? []) build.push(...rules.map((rule) => `add rule ${t} ${chain} ${rule}`));
  for (const [name, { place, text }] of after?.frontends ?? [])
    if (before?.frontends.has(name) !== true) open.push(`add element ${t} ${place} { ${text} }`);
  for (const chain of before?.entries.keys() ?? []) if (after?.entries.has(chain) !== true) drop.push(`delete chain ${t} ${chain}`);
}

function endpointRules(
  { affinitySeconds, protocol }: PortRules,
  { chain, endpoint, family }: { readonly chain: string; readonly endpoint: ProxyEndpoint; readonly family: Family },
): readonly string[] {
  return [
    // hairpin traffic is masqueraded: the pod must receive the reply from the Service
    `${family} saddr ${endpoint.ip} jump masquerade-mark`,
    ...(affinitySeconds === undefined ? [] : [`update @${affinitySet(chain)} { ${family} saddr }`]),
    `meta l4proto ${protocol} dnat to ${endpointName(endpoint)}`,
  ];
}

function entryRules(
  plan: PortRules,
  { id, chainOf }: { readonly id: string; readonly chainOf: ReadonlyMap<ProxyEndpoint, string> },
  { family, podCIDRs, masqueradeAll }: RulesetOptions,
): ReadonlyMap<string, readonly string[]> {
  const pods = podCIDRs.filter(ofFamily(family));
  const mark = 'jump masquerade-mark';
  const choose = (endpoints: readonly ProxyEndpoint[]) =>
    balance(
      endpoints.map((endpoint) => chainOf.get(endpoint) ?? ''),
      plan,
      family,
    );
  const inner: string[] = [];
  if (masqueradeAll) inner.push(mark);
  else if (pods.length > 0) inner.push(`${family} saddr != ${oneOf(pods)} ${mark}`);
  const entries = new Map([[`svc-${id}`, [...inner, ...choose(plan.internalEndpoints)]]]);
  if (!plan.frontends.some(({ kind }) => kind !== 'cluster')) return entries;

  const outer: string[] = [];
  if (plan.loadBalancerSources) {
    const { addresses, ranges } = plan.loadBalancerSources;
    outer.push(`${family} daddr ${oneOf(addresses)} ${ranges.length > 0 ? `${family} saddr != ${oneOf(ranges)} ` : ''}drop`);
  }
  if (masqueradeAll || plan.masqueradesExternal) outer.push(mark);
  if (plan.routesLocalTrafficToCluster) {
    if (pods.length > 0) outer.push(`${family} saddr ${oneOf(pods)} goto all-${id}`);
    outer.push(`fib saddr type local ${mark}`, `fib saddr type local goto all-${id}`);
    entries.set(`all-${id}`, choose(plan.clusterEndpoints));
  }
  return entries.set(`ext-${id}`, [...outer, ...choose(plan.externalEndpoints)]);
}

/**
 * Returns the rules that distribute packets among the chains; each rule takes its share of the remaining probability. An anonymous map would need
 * only one lookup, but takes ten times as long to create.
 */
function balance(chains: readonly string[], { affinitySeconds }: PortRules, family: Family): string[] {
  // other nodes may have endpoints, this node has none
  if (chains.length === 0) return ['drop'];
  const sticky = affinitySeconds === undefined ? [] : chains.map((to) => `${family} saddr @${affinitySet(to)} goto ${to}`);
  return [
    ...sticky,
    ...chains.map((to, index) => `${index === chains.length - 1 ? '' : `numgen random mod ${chains.length - index} < 1 `}goto ${to}`),
  ];
}
