import { createHash } from 'node:crypto';
import type { PortChange } from '@oarlock/service-rules/kernel-proxy';
import { endpointName, ofFamily, planOf, type Family, type PortPlan } from '@oarlock/service-rules/port-plan';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

/** All chains of ours begin so. */
export const prefix = 'OARLOCK-';
const services = `${prefix}SERVICES`;
const nodePorts = `${prefix}NODEPORTS`;
const postrouting = `${prefix}POSTROUTING`;
const mark = `${prefix}MARK`;
const refuse = `${prefix}REFUSE`;
const refuseNodePorts = `${prefix}REFUSE-NODE`;
/** A bit of the packet mark: this packet leaves with the node's address. */
const masqueradeBit = '0x4000';
const notMasqueraded = '0xffffbfff';

export interface RulesetOptions {
  readonly family: Family;
  /** Ranges of pods: what does not come from them and goes to a cluster address is masqueraded. */
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean;
  /** Ranges of the node's addresses that node ports answer at; empty: all but loopback. */
  readonly nodePortAddresses: readonly string[];
  /** The chain that leads from addresses of Services to their ports. There are two names for it, so that a new one can be filled while the old one is in use. */
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
/** Where packets come to our chains. */
export const hooks: readonly Hook[] = [
  { table: 'nat', chain: 'PREROUTING', rule: [...comment, '-j', services] },
  { table: 'nat', chain: 'OUTPUT', rule: [...comment, '-j', services] },
  { table: 'nat', chain: 'POSTROUTING', rule: [...comment, '-j', postrouting] },
  ...['INPUT', 'FORWARD', 'OUTPUT'].map(
    (chain): Hook => ({ table: 'filter', chain, rule: ['-m', 'conntrack', '--ctstate', 'NEW', ...comment, '-j', refuse] }),
  ),
];

/** Lines of `iptables-restore`: first what is filled, then what leads there, then what nothing leads to any more. */
export interface Lines {
  /** Chains are named before any rule names them; naming empties them. */
  readonly declare: string[];
  readonly release: string[];
  readonly build: string[];
  readonly open: string[];
  readonly drop: string[];
  readonly filter: string[];
}
export const noLines = (): Lines => ({ declare: [], release: [], build: [], open: [], drop: [], filter: [] });

const tableText = (name: string, lines: readonly string[]) => (lines.length === 0 ? '' : `*${name}\n${lines.join('\n')}\nCOMMIT\n`);

/** Everything as one change of each table. */
export function textOf({ declare, release, build, open, drop, filter }: Lines): string {
  return tableText('nat', [...declare, ...release, ...build, ...open, ...drop]) + tableText('filter', filter);
}

const emptied = (chain: string) => `:${chain} - [0:0]`;
/** iptables over nf_tables takes for many lines in one change far more than for the same lines in several. */
const portsAtOnce = 250;
const linesAtOnce = 1000;

/**
 * The texts that bring in all ports anew, to be run one after the other. Chains are filled first; packets come to the new ones when `SERVICES` is
 * turned to the new dispatch chain, in one step. `stale`: chains of the nat table that were there before.
 */
export function* replacement(ports: readonly ServicePort[], options: RulesetOptions, stale: readonly string[]): Generator<string> {
  const { family, nodePortAddresses, dispatch } = options;
  const made = new Set([services, nodePorts, postrouting, mark, dispatch]);
  yield tableText('nat', [emptied(mark), `-A ${mark} -j MARK --or-mark ${masqueradeBit}`, emptied(dispatch)]);
  const doors: string[] = [];
  const filter: string[] = [];
  for (let from = 0; from < ports.length; from += portsAtOnce) {
    const lines = noLines();
    for (const after of ports.slice(from, from + portsAtOnce)) portLines({ before: undefined, after }, options, lines);
    for (const line of lines.declare) made.add(line.slice(1, line.indexOf(' ')));
    doors.push(...lines.open.map((line) => line.replace('-I', '-A')));
    filter.push(...lines.filter.map((line) => line.replace('-I', '-A')));
    yield tableText('nat', [...lines.declare, ...lines.build]);
  }
  const onNode = doors.filter((line) => line.startsWith(`-A ${nodePorts} `));
  const atServices = doors.filter((line) => !line.startsWith(`-A ${nodePorts} `));
  for (let from = 0; from < atServices.length; from += linesAtOnce) yield tableText('nat', atServices.slice(from, from + linesAtOnce));
  const own = nodePortAddresses.filter(ofFamily(family));
  const node = nodePortAddresses.length === 0 ? [`! -d ${family === 'ip' ? '127.0.0.0/8' : '::1/128'}`] : own.map((range) => `-d ${range}`);
  yield tableText('nat', [
    ...[services, nodePorts, postrouting].map(emptied),
    `-A ${postrouting} -m mark ! --mark ${masqueradeBit}/${masqueradeBit} -j RETURN`,
    `-A ${postrouting} -j MARK --xor-mark ${masqueradeBit}`,
    `-A ${postrouting} -j MASQUERADE --random-fully`,
    `-A ${services} -j ${dispatch}`,
    // after the addresses of Services: whose address is also the node's is theirs
    ...node.map((to) => `-A ${services} ${to} -m addrtype --dst-type LOCAL -j ${nodePorts}`),
    ...onNode,
  ]);
  yield tableText('filter', [
    ...[refuse, refuseNodePorts].map(emptied),
    ...node.map((to) => `-A ${refuse} ${to} -m addrtype --dst-type LOCAL -j ${refuseNodePorts}`),
    ...filter,
  ]);
  yield* removal(
    'nat',
    stale.filter((chain) => !made.has(chain)),
  );
}

/** All are emptied before the first goes: they name each other. */
export function* removal(table: Hook['table'], chains: readonly string[]): Generator<string> {
  for (const lines of [chains.map(emptied), chains.map((chain) => `-X ${chain}`)])
    for (let from = 0; from < lines.length; from += linesAtOnce) yield tableText(table, lines.slice(from, from + linesAtOnce));
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16).toUpperCase();

interface Written {
  readonly plan: PortPlan;
  readonly inner: string;
  readonly outer: string | undefined;
  /** The short cut from external doors to all endpoints. */
  readonly all: string | undefined;
  /** Lets those through to `outer` that may come to a load balancer. */
  readonly gate: string | undefined;
  /** Endpoint chain to endpoint. */
  readonly endpoints: ReadonlyMap<string, ProxyEndpoint>;
  /** Rules that lead to the chains, and rules for what no chain has turned to an endpoint. */
  readonly doors: ReadonlySet<string>;
  readonly refusals: ReadonlySet<string>;
}

function written(port: PortChange['before'], { family, dispatch }: RulesetOptions): Written | undefined {
  const plan = port && planOf(port, family);
  if (!plan) return undefined;
  const id = digest(plan.port.key);
  const inner = `${prefix}S-${id}`;
  const outer = plan.doors.some(({ kind }) => kind !== 'cluster') ? `${prefix}X-${id}` : undefined;
  const gate = plan.sources && `${prefix}F-${id}`;
  const doors = new Set<string>();
  const refusals = new Set<string>();
  for (const { kind, address, port: number, open } of plan.doors) {
    const at = `${address === undefined ? '' : `-d ${address}/${family === 'ip' ? 32 : 128} `}-p ${plan.protocol} -m ${plan.protocol} --dport ${number}`;
    const to = kind === 'cluster' ? inner : kind === 'load-balancer' ? (gate ?? outer) : outer;
    const refusal = `${kind === 'node-port' ? refuseNodePorts : refuse} ${at}`;
    if (open) doors.add(`${kind === 'node-port' ? nodePorts : dispatch} ${at} -j ${to}`);
    // what the nat table did not turn to an endpoint still has this address; to drop is not for that table
    if (!open) refusals.add(`${refusal} -j REJECT`);
    else if (to === gate || (kind === 'cluster' ? plan.inner : plan.outer).length === 0) refusals.add(`${refusal} -j DROP`);
  }
  return {
    plan,
    inner,
    outer,
    all: plan.shortCut && outer !== undefined ? `${prefix}A-${id}` : undefined,
    gate,
    endpoints: new Map(plan.endpoints.map((endpoint) => [`${prefix}E-${digest(`${id} ${endpointName(endpoint)}`)}`, endpoint])),
    doors,
    refusals,
  };
}

const entryChains = ({ inner, outer, all, gate }: Written) => [inner, outer, all, gate].filter((chain) => chain !== undefined);
const chainsOf = (one: Written | undefined) => (one === undefined ? [] : [...entryChains(one), ...one.endpoints.keys()]);

/** Adds the lines that bring one port from what is programmed to what is wanted. A chain that stays as it is, is not named. */
export function portLines(change: PortChange, options: RulesetOptions, lines: Lines): void {
  const before = written(change.before, options);
  const after = written(change.after, options);
  const same =
    before && after && before.plan.affinitySeconds === after.plan.affinitySeconds && before.plan.protocol === after.plan.protocol;
  const has = new Set(chainsOf(after));
  for (const door of before?.doors ?? []) if (!after?.doors.has(door)) lines.release.push(`-D ${door}`);
  for (const rule of before?.refusals ?? []) if (!after?.refusals.has(rule)) lines.filter.push(`-D ${rule}`);
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
  for (const door of after.doors) if (!before?.doors.has(door)) lines.open.push(`-I ${door}`);
  for (const rule of after.refusals) if (!before?.refusals.has(rule)) lines.filter.push(`-I ${rule}`);
}

function endpointLines({ affinitySeconds, protocol }: PortPlan, chain: string, endpoint: ProxyEndpoint): string[] {
  const remember = affinitySeconds === undefined ? '' : `-m recent --name ${chain} --set --rsource `;
  return [
    // a pod that reaches itself through the Service has to see the answer come from the Service
    `-A ${chain} -s ${endpoint.ip} -j ${mark}`,
    `-A ${chain} ${remember}-p ${protocol} -j DNAT --to-destination ${endpointName(endpoint)}`,
  ];
}

function entryLines(one: Written, { family, podCIDRs, masqueradeAll }: RulesetOptions): string[] {
  const { plan, inner, outer, all, gate } = one;
  const pods = podCIDRs.filter(ofFamily(family));
  const lines: string[] = [];
  if (masqueradeAll) lines.push(`-A ${inner} -j ${mark}`);
  // marked, and for those of one range unmarked again: a rule knows one range
  else if (pods.length > 0)
    lines.push(
      `-A ${inner} ! -s ${pods[0]} -j ${mark}`,
      ...pods.slice(1).map((range) => `-A ${inner} -s ${range} -j MARK --and-mark ${notMasqueraded}`),
    );
  lines.push(...balance(one, inner, plan.inner));
  if (outer === undefined) return lines;
  if (gate !== undefined) lines.push(...(plan.sources?.ranges ?? []).map((range) => `-A ${gate} -s ${range} -j ${outer}`));
  if (masqueradeAll || plan.masqueradesOuter) lines.push(`-A ${outer} -j ${mark}`);
  if (all !== undefined) {
    lines.push(...pods.map((range) => `-A ${outer} -s ${range} -j ${all}`));
    lines.push(`-A ${outer} -m addrtype --src-type LOCAL -j ${mark}`, `-A ${outer} -m addrtype --src-type LOCAL -j ${all}`);
    lines.push(...balance(one, all, plan.all));
  }
  lines.push(...balance(one, outer, plan.outer));
  return lines;
}

function balance({ plan: { affinitySeconds }, endpoints: known }: Written, chain: string, endpoints: readonly ProxyEndpoint[]): string[] {
  const wanted = new Set(endpoints);
  const chains = [...known].filter(([, endpoint]) => wanted.has(endpoint)).map(([name]) => name);
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
