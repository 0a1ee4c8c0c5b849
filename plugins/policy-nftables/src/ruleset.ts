import { isIPv6 } from 'node:net';
import type { Isolation, AllowRule, PolicyEngine, PolicyChanges } from '@oarlock/network-policy/policy-engine';
import { directions, type Direction, type PortRange } from '@oarlock/network-policy/policy-rules';

export const table = 'oarlock-policy';

type Family = 4 | 6;
const families: readonly Family[] = [4, 6];
const protocolOf = { 4: 'ip', 6: 'ip6' } as const;
const typeOf = { 4: 'ipv4_addr', 6: 'ipv6_addr' } as const;
/** The packet fields that contain the addresses of the pod and of its peer, by direction. */
const addressFields = { ingress: { pod: 'daddr', peer: 'saddr' }, egress: { pod: 'saddr', peer: 'daddr' } } as const;
const familyOf = (element: string): Family => (isIPv6(element.split(/[ /]/, 1)[0] ?? '') ? 6 : 4);
const setName = (set: string, family: Family) => `${set}-v${family}`;
const typeOfSet = (set: string, family: Family) =>
  set.startsWith('doors-') ? `${typeOf[family]} . inet_proto . inet_service` : typeOf[family];

/**
 * Returns the constant part of the rules, which replaces the table. A packet passes the egress chain and then the ingress chain. They are separate
 * base chains, because `accept` ends only one base chain while `drop` ends all. Packets between a node and its own pods are not forwarded and pass
 * neither chain.
 *
 * Neighbor discovery between pods on one bridge is accepted. Its messages have the hop limit 255 (RFC 4861), which a router reduces before the forward hook:
 * packets of these types that are routed are data in disguise, and subject to the policies.
 */
export function baseRules(): string {
  const chain = (direction: Direction, priority: number) => `  chain ${direction} {
    type filter hook forward priority ${priority}; policy accept;
    ct state established,related accept
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert } accept
    ip saddr . ip daddr @self-v4 accept
    ip6 saddr . ip6 daddr @self-v6 accept
    ip ${addressFields[direction].pod} vmap @${setName(direction, 4)}
    ip6 ${addressFields[direction].pod} vmap @${setName(direction, 6)}
  }
`;
  return `table inet ${table} {}
delete table inet ${table}
table inet ${table} {
${families.map((family) => `  set ${setName('self', family)} { type ${typeOf[family]} . ${typeOf[family]}; }\n`).join('')}${directions
  .flatMap((direction) => families.map((family) => `  map ${setName(direction, family)} { type ${typeOf[family]} : verdict; }\n`))
  .join('')}${chain('egress', -12)}${chain('ingress', -11)}}
`;
}

/**
 * The rules in the kernel, and the commands of the transaction that updates them to the state of a policy engine. Sets and rules exist only for the
 * address families of the isolated pods.
 */
export class Ruleset {
  readonly #families: readonly Family[];
  readonly #sets = new Map<string, Set<string>>();
  readonly #chains = new Set<string>();
  readonly #isolations = new Set<string>();
  readonly #guarded: Readonly<Record<Direction, Map<string, string>>> = { ingress: new Map(), egress: new Map() };

  /** @param addresses the addresses of pods, whose address families the rules cover */
  constructor(addresses: Iterable<string>) {
    const present = new Set(Array.from(addresses, familyOf));
    this.#families = families.filter((family) => present.has(family));
  }

  /** Returns true if the rules cover the families of these addresses. */
  supports(addresses: Iterable<string>): boolean {
    for (const address of addresses) if (!this.#families.includes(familyOf(address))) return false;
    return true;
  }

  /** Returns the nft commands of the changes, one per line; empty if nothing differs. The ruleset assumes that the caller applies the commands. */
  update(engine: PolicyEngine, touched: PolicyChanges): string {
    const first: string[] = [];
    const middle: string[] = [];
    const last: string[] = [];
    for (const [id, elements] of touched.sets) this.#set(id, { touched: elements, engine, first, last });
    for (const id of touched.chains) {
      const chain = engine.chains.get(id);
      define(id, {
        rules: chain?.rules.flatMap((pass) => ruleOf(pass, chain.direction, this.#families)),
        present: this.#chains,
        first,
        middle,
        last,
      });
    }
    for (const id of touched.isolations) {
      const isolation = engine.isolations.get(id);
      define(id, { rules: isolation && rulesOf(isolation), present: this.#isolations, first, middle, last });
    }
    for (const address of touched.addresses) for (const direction of directions) this.#guard(direction, { address, engine, lines: middle });
    // references are removed before the chains that they refer to
    return [...first, ...middle, ...last.sort((one, other) => rank(one) - rank(other))].map((line) => `${line}\n`).join('');
  }

  #set(
    id: string,
    {
      touched,
      engine,
      first,
      last,
    }: { readonly touched: ReadonlySet<string>; readonly engine: PolicyEngine; readonly first: string[]; readonly last: string[] },
  ): void {
    const desired = engine.sets.get(id);
    let present = this.#sets.get(id);
    if (desired === undefined) {
      if (present !== undefined) for (const family of this.#families) last.push(`delete set inet ${table} ${setName(id, family)}`);
      this.#sets.delete(id);
      return;
    }
    if (present === undefined) {
      present = new Set();
      this.#sets.set(id, present);
      for (const family of this.#families) first.push(`add set inet ${table} ${setName(id, family)} { type ${typeOfSet(id, family)}; }`);
    }
    for (const family of this.#families) {
      const [added, gone]: [string[], string[]] = [[], []];
      for (const element of touched) {
        if (familyOf(element) !== family || desired.has(element) === present.has(element)) continue;
        if (desired.has(element)) {
          added.push(element);
          present.add(element);
        } else {
          gone.push(element);
          present.delete(element);
        }
      }
      if (gone.length > 0) first.push(`delete element inet ${table} ${setName(id, family)} { ${gone.join(', ')} }`);
      if (added.length > 0) first.push(`add element inet ${table} ${setName(id, family)} { ${added.join(', ')} }`);
    }
  }

  #guard(
    direction: Direction,
    { address, engine, lines }: { readonly address: string; readonly engine: PolicyEngine; readonly lines: string[] },
  ): void {
    const guarded = this.#guarded[direction];
    const [before, wanted] = [guarded.get(address), engine.isolationByAddress[direction].get(address)];
    if (before === wanted) return;
    const family = familyOf(address);
    const map = `inet ${table} ${setName(direction, family)}`;
    if (before !== undefined) lines.push(`delete element ${map} { ${address} }`);
    if (wanted !== undefined) lines.push(`add element ${map} { ${address} : goto ${wanted} }`);
    const other = this.#guarded[direction === 'ingress' ? 'egress' : 'ingress'];
    if (wanted === undefined) guarded.delete(address);
    else guarded.set(address, wanted);
    // a pod can always reach itself through a Service
    const self = `inet ${table} ${setName('self', family)} { ${address} . ${address} }`;
    if (before === undefined && !other.has(address)) lines.push(`add element ${self}`);
    if (wanted === undefined && !other.has(address)) lines.push(`delete element ${self}`);
  }
}

const rank = (line: string) => (line.startsWith('delete set') ? 2 : line.includes('-pods-') ? 0 : 1);

function define(
  id: string,
  {
    rules,
    present,
    first,
    middle,
    last,
  }: {
    readonly rules: readonly string[] | undefined;
    readonly present: Set<string>;
    readonly first: string[];
    readonly middle: string[];
    readonly last: string[];
  },
): void {
  if (rules === undefined) {
    if (!present.delete(id)) return;
    middle.push(`flush chain inet ${table} ${id}`);
    last.push(`delete chain inet ${table} ${id}`);
    return;
  }
  first.push(`add chain inet ${table} ${id}`);
  if (present.has(id)) middle.push(`flush chain inet ${table} ${id}`);
  present.add(id);
  for (const rule of rules) middle.push(`add rule inet ${table} ${id} ${rule}`);
}

const rulesOf = ({ chains }: Isolation): string[] => [...chains.map((chain) => `jump ${chain}`), 'drop'];

/** Returns the rules of one condition, with one rule for each address family and each protocol of the condition's ports. */
function ruleOf(
  { peers, block, portRanges: ranges, endpoints: endpointSet }: AllowRule,
  direction: Direction,
  present: readonly Family[],
): string[] {
  const { peer } = addressFields[direction];
  const ports = ranges === undefined ? [''] : portMatches(ranges);
  const both = block === undefined && peers === undefined && endpointSet === undefined;
  const of = block === undefined ? present : [familyOf(block.cidr)].filter((family) => present.includes(family));
  return (both ? [undefined] : of).flatMap((family) => {
    const matches: string[] = [];
    if (family !== undefined) {
      const ip = protocolOf[family];
      if (peers !== undefined) matches.push(`${ip} ${peer} @${setName(peers, family)}`);
      if (block !== undefined) matches.push(`${ip} ${peer} ${block.cidr}`);
      if (block !== undefined && block.except.length > 0) matches.push(`${ip} ${peer} != { ${block.except.join(', ')} }`);
      if (endpointSet !== undefined) matches.push(`${ip} daddr . meta l4proto . th dport @${setName(endpointSet, family)}`);
    }
    return ports.map((port) => [...matches, ...(port === '' ? [] : [port]), 'accept'].join(' '));
  });
}

function portMatches(ranges: readonly PortRange[]): string[] {
  return [...new Set(ranges.map(({ protocol }) => protocol))].map((protocol) => {
    const of = ranges.filter((range) => range.protocol === protocol);
    const name = protocol.toLowerCase();
    if (of.some(({ from }) => from === undefined)) return `meta l4proto ${name}`;
    return `${name} dport { ${disjoint(of).join(', ')} }`;
  });
}

/** Merges overlapping ranges, because nftables rejects overlapping intervals. */
function disjoint(ranges: readonly PortRange[]): string[] {
  const sorted = ranges.map(({ from = 0, to = from }) => ({ from, to })).sort((one, other) => one.from - other.from);
  const joined: { from: number; to: number }[] = [];
  for (const range of sorted) {
    const before = joined.at(-1);
    if (before !== undefined && range.from <= before.to + 1) before.to = Math.max(before.to, range.to);
    else joined.push({ ...range });
  }
  return joined.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`));
}
