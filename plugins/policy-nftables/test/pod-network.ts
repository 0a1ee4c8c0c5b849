import type { Packet, PacketFamily } from '@oarlock/spi/policy.contract';
import { caseEnds } from '@oarlock/spi/policy.contract.cases';
import { nft } from '@oarlock/nftables/nft';
import { execa } from 'execa';
import { Node } from './node.ts';
import { End } from './pod-end.ts';

const observer = 'observer';
const families = [4, 6] as const;
const addressOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.1.${at + 1}` : `fd00:99::1:${at + 1}`);
const gatewayOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.2.${at + 1}` : `fd00:99::2:${at + 1}`);
const addressAt = (key: string, family: PacketFamily) =>
  addressOf(
    caseEnds.findIndex((end) => end.key === key),
    family,
  );
const word = ({ from, to, door, family }: Packet): string =>
  `${addressAt(from, family)} . ${addressAt(to, family)} . ${door.protocol.toLowerCase()} . ${door.port}`;

const observing = () => {
  const sets = families
    .flatMap((family) => ['seen', 'passed'].map((name) => ({ name: `${name}${family}`, type: family === 4 ? 'ipv4_addr' : 'ipv6_addr' })))
    .map(({ name, type }) => `set ${name} { type ${type} . ${type} . inet_proto . inet_service; size 65535; flags dynamic; }`);
  const chain = (name: string, priority: number) => `chain ${name} {
      type filter hook forward priority ${priority}; policy accept;
      ct state new add @${name}4 { ip saddr . ip daddr . meta l4proto . th dport }
      ct state new add @${name}6 { ip6 saddr . ip6 daddr . meta l4proto . th dport }
    }`;
  return `table inet ${observer} {\n${sets.join('\n')}\n${chain('seen', -50)}\n${chain('passed', 50)}\n}\n`;
};
const forgetting = ['seen', 'passed'].flatMap((name) => families.map((family) => `flush set inet ${observer} ${name}${family}\n`)).join('');

/** A cable between two nodes: each sends what it does not know to the other, or only what `keys` name. */
function connect(here: Node, there: Node, keys: readonly string[]): void {
  here.ip('link', 'add', 'far', 'type', 'veth', 'peer', 'name', 'near', 'netns', String(there.pid));
  for (const [node, device, last] of [[here, 'far', 1] as const, [there, 'near', 2] as const]) {
    node.ip('link', 'set', device, 'up');
    node.ip('address', 'add', `10.99.3.${last}/30`, 'dev', device);
    node.ip('address', 'add', `fd00:99::3:${last}/126`, 'dev', device, 'nodad');
  }
  there.ip('route', 'add', 'default', 'via', '10.99.3.1');
  there.ip('-6', 'route', 'add', 'default', 'via', 'fd00:99::3:1');
  for (const key of keys) {
    here.ip('route', 'add', `${addressAt(key, 4)}/32`, 'via', '10.99.3.2');
    here.ip('-6', 'route', 'add', `${addressAt(key, 6)}/128`, 'via', 'fd00:99::3:2');
  }
}

/**
 * The ends of the table of cases behind cables of their own, on one node or on two, and on each node a table of rules before and behind
 * the ones that are tried: what was seen by the first and not by the second was dropped between them, however slow the machine is.
 */
export class PodNetwork {
  readonly #ends = new Map<string, End>();
  readonly #here: Node;
  readonly #there: Node | undefined;

  private constructor(here: Node, there: Node | undefined) {
    this.#here = here;
    this.#there = there;
  }

  /** With a second node, the pods that are elsewhere are on that. */
  static async begin({ nodes }: { readonly nodes: 1 | 2 }): Promise<PodNetwork> {
    const network = new PodNetwork(Node.here(), nodes === 2 ? await Node.there() : undefined);
    for (const [at, { key }] of caseEnds.entries())
      network.#ends.set(
        key,
        await End.begin(
          network.#nodeOf(key),
          `end${at}`,
          families.map((family) => addressOf(at, family)),
          families.map((family) => gatewayOf(at, family)),
        ),
      );
    if (network.#there !== undefined) {
      const far = caseEnds.filter(({ key }) => network.#nodeOf(key) === network.#there).map(({ key }) => key);
      connect(network.#here, network.#there, far);
    }
    for (const node of network.#nodes) await nft(observing(), node.enter);
    return network;
  }

  /** What to run a program on the second node with. */
  get enterElsewhere(): readonly string[] | undefined {
    return this.#there?.enter;
  }
  get #nodes(): readonly Node[] {
    return this.#there === undefined ? [this.#here] : [this.#here, this.#there];
  }
  #nodeOf(key: string): Node {
    const end = caseEnds.find((each) => each.key === key);
    return end?.local === false && end.outside !== true ? (this.#there ?? this.#here) : this.#here;
  }

  address(key: string, family: PacketFamily): string {
    return addressAt(key, family);
  }

  async send(packets: readonly Packet[]): Promise<readonly boolean[]> {
    for (const node of this.#nodes) await nft(forgetting, node.enter);
    await Promise.all(
      packets.map(
        ({ from, to, door, family }) =>
          this.#end(from).ask('send', { address: this.address(to, family), port: door.port, protocol: door.protocol, family }).answer,
      ),
    );
    for (;;) {
      // a packet meets both tables of a node in one go, and what the kernel lists is of one moment
      const seen = new Map<Node, Observed>();
      for (const node of this.#nodes) seen.set(node, await observed(node));
      const fates = packets.map((packet) => this.#fate(packet, seen));
      if (!fates.includes(undefined)) return fates.map((passed) => passed === true);
    }
  }

  /** Whether it was let through by every node on its way; undefined: it is on its way. */
  #fate(packet: Packet, all: ReadonlyMap<Node, Observed>): boolean | undefined {
    // what an end sends to itself does not leave it
    if (packet.from === packet.to) return true;
    for (const node of new Set([this.#nodeOf(packet.from), this.#nodeOf(packet.to)])) {
      const { seen, passed } = all.get(node) ?? { seen: new Set(), passed: new Set() };
      if (!seen.has(word(packet))) return undefined;
      if (!passed.has(word(packet))) return false;
    }
    return true;
  }

  async converse({ from, to, door, family }: Packet): Promise<{ echo(): Promise<boolean>; close(): Promise<void> }> {
    const end = this.#end(from);
    const { id, answer } = end.ask('open', { address: this.address(to, family), port: door.port });
    await answer;
    return {
      echo: () => end.ask('echo', { port: id }).answer,
      close: async () => {
        await end.ask('close', { port: id }).answer;
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#ends.values()].map((end) => end.close()));
    await this.#there?.close();
  }

  #end(key: string): End {
    const end = this.#ends.get(key);
    if (end === undefined) throw new Error(`there is no ${key}`);
    return end;
  }
}

interface SetEntry {
  readonly name: string;
  readonly elem?: readonly {
    readonly concat?: readonly unknown[];
    readonly elem?: { readonly val: { readonly concat: readonly unknown[] } };
  }[];
}

interface Observed {
  readonly seen: ReadonlySet<string>;
  readonly passed: ReadonlySet<string>;
}

async function observed({ enter }: Node): Promise<Observed> {
  const [file = '', ...args] = [...enter, 'nft', '-j', 'list', 'table', 'inet', observer];
  const { stdout } = await execa(file, args);
  const { nftables } = JSON.parse(stdout) as { readonly nftables: readonly { readonly set?: SetEntry }[] };
  const found = { seen: new Set<string>(), passed: new Set<string>() };
  for (const { set } of nftables)
    for (const { concat, elem } of set?.elem ?? [])
      found[set?.name.startsWith('seen') === true ? 'seen' : 'passed'].add((concat ?? elem?.val.concat ?? []).join(' . '));
  return found;
}
