import { createHash } from 'node:crypto';
import type { PortChange } from '@oarlock/service-rules/kernel-proxy';
import { endpointName, ofFamily, buildPortRules, type Family, type PortRules } from '@oarlock/service-rules/port-rules';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

/** The prefix of the names of all chains of this proxy. */
export const prefix = 'OARLOCK-';
const services = `${prefix}SERVICES`;
const nodePorts = `${prefix}NODEPORTS`;
const postrouting = `${prefix}POSTROUTING`;
const mark = `${prefix}MARK`;
const rejectChain = `${prefix}REFUSE`;
const rejectNodePortsChain = `${prefix}REFUSE-NODE`;
/** The bit of the packet mark that selects packets for masquerading. */
const masqueradeBit = '0x4000';
const notMasqueraded = '0xffffbfff';

export interface RulesetOptions {
  readonly family: Family;
  /** The address ranges of pods. Packets to a cluster IP from other addresses are masqueraded. */
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean;
  /** The ranges of the node addresses that accept node ports; an empty list means all addresses except loopback. */
  readonly nodePortAddresses: readonly string[];
  /**
   * The chain that dispatches Service addresses to the chains of ports. It alternates between two names, so that a new chain can be filled while the
   * old chain is in use.
   */
  readonly dispatch: string;
}
export const dispatches = [`${prefix}DISPATCH-0`, `${prefix}DISPATCH-1`] as const;
export const dispatchRule = (dispatch: string): { readonly chain: string; readonly rule: readonly string[] } => ({
  chain: services,
  rule: ['-j', dispatch],
});

export interface Hook {
  readonly table: 'nat' | 'filter';
  readonly chain: string;
  readonly rule: readonly string[];
}

const comment = ['-m', 'comment', '--comment', 'oarlock services'];
/** The netfilter hooks from which packets enter the chains of this proxy. */
export const hooks: readonly Hook[] = [
  { table: 'nat', chain: 'PREROUTING', rule: [...comment, '-j', services] },
  { table: 'nat', chain: 'OUTPUT', rule: [...comment, '-j', services] },
  { table: 'nat', chain: 'POSTROUTING', rule: [...comment, '-j', postrouting] },
  ...['INPUT', 'FORWARD', 'OUTPUT'].map(
    (chain): Hook => ({ table: 'filter', chain, rule: ['-m', 'conntrack', '--ctstate', 'NEW', ...comment, '-j', rejectChain] }),
  ),
];

/** The lines for iptables-restore in their order: fill chains, redirect packets to the chains, remove unreferenced chains. */
export interface Lines {
  /** The declarations of chains, which precede the rules that refer to the chains. A declaration flushes the chain. */
  readonly declare: string[];
  readonly release: string[];
  readonly build: string[];
  readonly open: string[];
  readonly drop: string[];
  readonly filter: string[];
}
export const noLines = (): Lines => ({ declare: [], release: [], build: [], open: [], drop: [], filter: [] });

const tableText = (name: string, lines: readonly string[]) => (lines.length === 0 ? '' : `*${name}\n${lines.join('\n')}\nCOMMIT\n`);

/** Returns the text of all changes for iptables-restore, with one transaction per table. */
export function textOf({ declare, release, build, open, drop, filter }: Lines): string {
  return tableText('nat', [...declare, ...release, ...build, ...open, ...drop]) + tableText('filter', filter);
}

const emptied = (chain: string) => `:${chain} - [0:0]`;
/** The number of ports per transaction. iptables over nf_tables is much slower for many lines in one transaction than in several. */
const portsAtOnce = 250;
const linesAtOnce = 1000;

/**
 * Yields the texts that replace the rules of all ports, to be applied in order. The chains are filled first; `SERVICES` then switches to the new
 * dispatch chain in one step. `stale` are the existing chains of the nat table.
 */
export function* replacement(ports: readonly ServicePort[], options: RulesetOptions, stale: readonly string[]): Generator<string> {
  const { family, nodePortAddresses, dispatch } = options;
  const newChains = new Set([services, nodePorts, postrouting, mark, dispatch]);
  yield tableText('nat', [emptied(mark), `-A ${mark} -j MARK --or-mark ${masqueradeBit}`, emptied(dispatch)]);
  const frontendLines: string[] = [];
  const filter: string[] = [];
  for (let from = 0; from < ports.length; from += portsAtOnce) {
    const lines = noLines();
    for (const after of ports.slice(from, from + portsAtOnce)) portLines({ before: undefined, after }, options, lines);
    for (const line of lines.declare) newChains.add(line.slice(1, line.indexOf(' ')));
    frontendLines.push(...lines.open.map((line) => line.replace('-I', '-A')));
    filter.push(...lines.filter.map((line) => line.replace('-I', '-A')));
    yield tableText('nat', [...lines.declare, ...lines.build]);
  }
  const onNode = frontendLines.filter((line) => line.startsWith(`-A ${nodePorts} `));
  const atServices = frontendLines.filter((line) => !line.startsWith(`-A ${nodePorts} `));
  for (let from = 0; from < atServices.length; from += linesAtOnce) yield tableText('nat', atServices.slice(from, from + linesAtOnce));
  const own = nodePortAddresses.filter(ofFamily(family));
  const node = nodePortAddresses.length === 0 ? [`! -d ${family === 'ip' ? '127.0.0.0/8' : '::1/128'}`] : own.map((range) => `-d ${range}`);
  yield tableText('nat', [
    ...[services, nodePorts, postrouting].map(emptied),
    `-A ${postrouting} -m mark ! --mark ${masqueradeBit}/${masqueradeBit} -j RETURN`,
    `-A ${postrouting} -j MARK --xor-mark ${masqueradeBit}`,
    `-A ${postrouting} -j MASQUERADE --random-fully`,
    `-A ${services} -j ${dispatch}`,
    // after the Services' addresses: an address that both a Service and the node have belongs to the Service
    ...node.map((to) => `-A ${services} ${to} -m addrtype --dst-type LOCAL -j ${nodePorts}`),
    ...onNode,
  ]);
  yield tableText('filter', [
    ...[rejectChain, rejectNodePortsChain].map(emptied),
    ...node.map((to) => `-A ${rejectChain} ${to} -m addrtype --dst-type LOCAL -j ${rejectNodePortsChain}`),
    ...filter,
  ]);
  yield* removal(
    'nat',
    stale.filter((chain) => !newChains.has(chain)),
  );
}

/** Yields the lines that remove chains. All chains are flushed before the first is deleted, because chains refer to each other. */
export function* removal(table: Hook['table'], chains: readonly string[]): Generator<string> {
  for (const lines of [chains.map(emptied), chains.map((chain) => `-X ${chain}`)])
    for (let from = 0; from < lines.length; from += linesAtOnce) yield tableText(table, lines.slice(from, from + linesAtOnce));
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16).toUpperCase();

interface CompiledPort {
  readonly plan: PortRules;
  readonly inner: string;
  readonly outer: string | undefined;
  /** The chain for node-local traffic to external frontends, which uses all endpoints; undefined if it is not needed. */
  readonly all: string | undefined;
  /** The chain that passes the allowed sources of a load balancer to `outer`; undefined if all sources are allowed. */
  readonly gate: string | undefined;
  /** The endpoints, keyed by the name of their chain. */
  readonly endpoints: ReadonlyMap<string, ProxyEndpoint>;
  /** The rules that direct packets to the chains, and the rules for packets that no chain has translated. */
  readonly frontends: ReadonlySet<string>;
  readonly rejections: ReadonlySet<string>;
}

function compilePort(port: PortChange['before'], { family, dispatch }: RulesetOptions): CompiledPort | undefined {
  const plan = port && buildPortRules(port, family);
  if (!plan) return undefined;
  const id = digest(plan.port.key);
  const inner = `${prefix}S-${id}`;
  const outer = plan.frontends.some(({ kind }) => kind !== 'cluster') ? `${prefix}X-${id}` : undefined;
  const gate = plan.loadBalancerSources && `${prefix}F-${id}`;
  const frontends = new Set<string>();
  const rejections = new Set<string>();
  for (const { kind, address, port: number, hasEndpoints: open } of plan.frontends) {
    const at = `${address === undefined ? '' : `-d ${address}/${family === 'ip' ? 32 : 128} `}-p ${plan.protocol} -m ${plan.protocol} --dport ${number}`;
    const to = kind === 'cluster' ? inner : kind === 'load-balancer' ? (gate ?? outer) : outer;
    const match = `${kind === 'node-port' ? rejectNodePortsChain : rejectChain} ${at}`;
    if (open) frontends.add(`${kind === 'node-port' ? nodePorts : dispatch} ${at} -j ${to}`);
    // untranslated packets still have this address; the nat table must not drop packets
    if (!open) rejections.add(`${match} -j REJECT`);
    else if (to === gate || (kind === 'cluster' ? plan.internalEndpoints : plan.externalEndpoints).length === 0)
      rejections.add(`${match} -j DROP`);
  }
  return {
    plan,
    inner,
    outer,
    all: plan.routesLocalTrafficToCluster && outer !== undefined ? `${prefix}A-${id}` : undefined,
    gate,
    endpoints: new Map(plan.reachableEndpoints.map((endpoint) => [`${prefix}E-${digest(`${id} ${endpointName(endpoint)}`)}`, endpoint])),
    frontends: frontends,
    rejections: rejections,
  };
}

const entryChains = ({ inner, outer, all, gate }: CompiledPort) => [inner, outer, all, gate].filter((chain) => chain !== undefined);
const chainsOf = (one: CompiledPort | undefined) => (one === undefined ? [] : [...entryChains(one), ...one.endpoints.keys()]);

/** Adds the lines that change one port from the programmed state to the desired state. Unchanged endpoint chains are not declared. */
export function portLines(change: PortChange, options: RulesetOptions, lines: Lines): void {
  const before = compilePort(change.before, options);
  const after = compilePort(change.after, options);
  const same =
    before && after && before.plan.affinitySeconds === after.plan.affinitySeconds && before.plan.protocol === after.plan.protocol;
  const has = new Set(chainsOf(after));
  for (const frontend of before?.frontends ?? []) if (!after?.frontends.has(frontend)) lines.release.push(`-D ${frontend}`);
  for (const rule of before?.rejections ?? []) if (!after?.rejections.has(rule)) lines.filter.push(`-D ${rule}`);
  for (const chain of chainsOf(before)) {
    if (has.has(chain)) continue;
    lines.declare.push(`:${chain} - [0:0]`);
    lines.drop.push(`-X ${chain}`);
  }
  if (!after) return;
  for (const [chain, endpoint] of after.endpoints) {
    if (same && before.endpoints.has(chain)) continue;
    lines.declare.push(`:${chain} - [0:0]`);
    lines.build.push(...endpointLines(after.plan, chain, endpoint));
  }
  for (const chain of entryChains(after)) lines.declare.push(`:${chain} - [0:0]`);
  lines.build.push(...entryLines(after, options));
  // before the node ports, which may be at the same address
  for (const frontend of after.frontends) if (!before?.frontends.has(frontend)) lines.open.push(`-I ${frontend}`);
  for (const rule of after.rejections) if (!before?.rejections.has(rule)) lines.filter.push(`-I ${rule}`);
}

function endpointLines({ affinitySeconds, protocol }: PortRules, chain: string, endpoint: ProxyEndpoint): string[] {
  const remember = affinitySeconds === undefined ? '' : `-m recent --name ${chain} --set --rsource `;
  return [
    // hairpin traffic is masqueraded: the pod must receive the reply from the Service
    `-A ${chain} -s ${endpoint.ip} -j ${mark}`,
    `-A ${chain} ${remember}-p ${protocol} -j DNAT --to-destination ${endpointName(endpoint)}`,
  ];
}

function entryLines(one: CompiledPort, { family, podCIDRs, masqueradeAll }: RulesetOptions): string[] {
  const { plan, inner, outer, all, gate } = one;
  const pods = podCIDRs.filter(ofFamily(family));
  const lines: string[] = [];
  if (masqueradeAll) lines.push(`-A ${inner} -j ${mark}`);
  // mark all packets and unmark those of the other pod CIDRs, because a rule matches one range
  else if (pods.length > 0)
    lines.push(
      `-A ${inner} ! -s ${pods[0]} -j ${mark}`,
      ...pods.slice(1).map((range) => `-A ${inner} -s ${range} -j MARK --and-mark ${notMasqueraded}`),
    );
  lines.push(...balance(one, inner, plan.internalEndpoints));
  if (outer === undefined) return lines;
  if (gate !== undefined) lines.push(...(plan.loadBalancerSources?.ranges ?? []).map((range) => `-A ${gate} -s ${range} -j ${outer}`));
  if (masqueradeAll || plan.masqueradesExternal) lines.push(`-A ${outer} -j ${mark}`);
  if (all !== undefined) {
    lines.push(...pods.map((range) => `-A ${outer} -s ${range} -j ${all}`));
    lines.push(`-A ${outer} -m addrtype --src-type LOCAL -j ${mark}`, `-A ${outer} -m addrtype --src-type LOCAL -j ${all}`);
    lines.push(...balance(one, all, plan.clusterEndpoints));
  }
  lines.push(...balance(one, outer, plan.externalEndpoints));
  return lines;
}

function balance(
  { plan: { affinitySeconds }, endpoints: known }: CompiledPort,
  chain: string,
  endpoints: readonly ProxyEndpoint[],
): string[] {
  const selected = new Set(endpoints);
  const chains = [...known].filter(([, endpoint]) => selected.has(endpoint)).map(([name]) => name);
  const sticky =
    affinitySeconds === undefined
      ? []
      : chains.map((to) => `-A ${chain} -m recent --name ${to} --rcheck --seconds ${affinitySeconds} --reap --rsource -j ${to}`);
  const turns = chains.map((to, index) => {
    const left = chains.length - index;
    return `-A ${chain} ${left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `}-j ${to}`;
  });
  return [...sticky, ...turns];
}
