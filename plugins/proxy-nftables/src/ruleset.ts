import { createHash } from 'node:crypto';
import type { PortChange } from '@oarlock/service-rules/kernel-proxy';
import { endpointName, ofFamily, buildPortRules, type Family, type PortRules } from '@oarlock/service-rules/port-rules';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export const table = 'oarlock-services';
/** Bit of the packet mark for packets to masquerade. */
const masqueradeBit = '0x4000';

export interface RulesetOptions {
  readonly family: Family;
  /** Pod ranges: packets to a cluster IP from other addresses are masqueraded. */
  readonly podCIDRs: readonly string[];
  /** Also masquerade pods of this node: required if bridged replies do not pass the rules. */
  readonly masqueradeAll: boolean;
  /** Ranges of node addresses that node ports listen on; if empty, all. */
  readonly nodePortAddresses: readonly string[];
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
const endpointChain = (id: string, { ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>) => `ep-${digest(`${id} ${ip} ${port}`)}`;
const affinitySet = (chain: string) => `aff-${chain.slice(3)}`;

/** One element or a set of several: sets without a name are slow to make. */
const oneOf = (values: readonly string[]) => (values.length === 1 ? (values[0] ?? '') : `{ ${values.join(', ')} }`);

/** The whole table: where packets enter, the maps that lead to each port of a Service, and their chains. Replaces whatever there was. */
export function tableText(ports: readonly ServicePort[], options: RulesetOptions): string {
  const { family, nodePortAddresses } = options;
  const own = nodePortAddresses.filter(ofFamily(family));
  // what leaves the loopback address has no way back; of a family without a range no address is meant
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

type ElementPlace = 'services' | 'node-ports' | 'unserved' | 'unserved-node-ports';

/** What stands in the table for one port. */
interface CompiledPort {
  readonly plan: PortRules;
  /** Chains that end at one endpoint, with the declaration of the set of clients that stick to it. */
  readonly endpoints: ReadonlyMap<string, { readonly rules: readonly string[]; readonly affinity: string | undefined }>;
  /** Chains that choose: for cluster addresses, for all other doors, and for the short cut from these to all endpoints. */
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** Elements of the maps and sets that packets are looked up in. */
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
  const doors = plan.frontends.map((door) => {
    const onNode = door.kind === 'node-port';
    const key = `${onNode ? '' : `${door.address} . `}${plan.protocol} . ${door.port}`;
    const chain = `${door.kind === 'cluster' ? 'svc' : 'ext'}-${id}`;
    const place: ElementPlace = door.hasEndpoints ? (onNode ? 'node-ports' : 'services') : onNode ? 'unserved-node-ports' : 'unserved';
    return { place, key, text: door.hasEndpoints ? `${key} : goto ${chain}` : key };
  });
  return {
    plan,
    endpoints: new Map([...chainOf].map(([endpoint, chain]) => [chain, { rules: endpointRules(plan, chain, endpoint, family), affinity }])),
    entries: entryRules(plan, id, chainOf, options),
    frontends: new Map(doors.map((door) => [`${door.place} ${door.text}`, door])),
  };
}

/** Adds the commands that bring one port from what is programmed to what is wanted. They are part of one transaction. */
export function portRules(change: PortChange, options: RulesetOptions, { release, build, open, drop }: Steps): void {
  const t = `${options.family} ${table}`;
  const before = compilePort(change.before, options);
  const after = compilePort(change.after, options);
  for (const [name, { place, key }] of before?.frontends ?? [])
    if (!after?.frontends.has(name)) release.push(`delete element ${t} ${place} { ${key} }`);
  // an endpoint's chain is made anew when anything that stands in it changes
  const same =
    before && after && before.plan.affinitySeconds === after.plan.affinitySeconds && before.plan.protocol === after.plan.protocol;
  for (const chain of before?.entries.keys() ?? []) build.push(`flush chain ${t} ${chain}`);
  for (const [chain, { affinity }] of before?.endpoints ?? []) {
    if (same && after.endpoints.has(chain)) continue;
    // one that comes back at once has to be gone before it is built
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
  chain: string,
  endpoint: ProxyEndpoint,
  family: Family,
): readonly string[] {
  return [
    // a pod that reaches itself through the Service has to see the answer come from the Service
    `${family} saddr ${endpoint.ip} jump masquerade-mark`,
    ...(affinitySeconds === undefined ? [] : [`update @${affinitySet(chain)} { ${family} saddr }`]),
    `meta l4proto ${protocol} dnat to ${endpointName(endpoint)}`,
  ];
}

function entryRules(
  plan: PortRules,
  id: string,
  chainOf: ReadonlyMap<ProxyEndpoint, string>,
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

/** One after the other takes its share of what is left. A map without a name would be one look, but takes ten times as long to make. */
function balance(chains: readonly string[], { affinitySeconds }: PortRules, family: Family): string[] {
  // others may serve it, this node does not
  if (chains.length === 0) return ['drop'];
  const sticky = affinitySeconds === undefined ? [] : chains.map((to) => `${family} saddr @${affinitySet(to)} goto ${to}`);
  return [
    ...sticky,
    ...chains.map((to, index) => `${index === chains.length - 1 ? '' : `numgen random mod ${chains.length - index} < 1 `}goto ${to}`),
  ];
}
