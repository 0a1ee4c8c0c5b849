import type { Packet, PacketFamily } from '@oarlock/spi/policy/contract';
import { casePeers } from '@oarlock/spi/policy/contract/cases';
import { listRules, nft } from '@oarlock/nftables/nft';
import { Node } from './node.ts';
import { openNetwork, type NetworkName, type PodConnector } from './networks.ts';
import { cable, End } from './pod-end.ts';

const observer = 'observer';
const families = [4, 6] as const;
/** Returns addresses of endpoints that no network plugin connects. */
const addressOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.4.${at + 1}` : `fd00:99:0:4::${at + 1}`);
const gatewayOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.2.${at + 1}` : `fd00:99::2:${at + 1}`);

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

/** Connects two nodes with a veth pair: the default route of the second leads to the first; routes on the first lead to `ends`. */
function connect(here: Node, there: Node, ends: readonly End[]): void {
  here.ip('link', 'add', 'far', 'type', 'veth', 'peer', 'name', 'near', 'netns', String(there.pid));
  for (const [node, device, last] of [[here, 'far', 1] as const, [there, 'near', 2] as const]) {
    node.ip('link', 'set', device, 'up');
    node.ip('address', 'add', `10.99.3.${last}/30`, 'dev', device);
    node.ip('address', 'add', `fd00:99::3:${last}/126`, 'dev', device, 'nodad');
  }
  there.ip('route', 'add', 'default', 'via', '10.99.3.1');
  there.ip('-6', 'route', 'add', 'default', 'via', 'fd00:99::3:1');
  for (const { addresses } of ends) {
    here.ip('route', 'add', `${addresses[0]}/32`, 'via', '10.99.3.2');
    here.ip('-6', 'route', 'add', `${addresses[1]}/128`, 'via', 'fd00:99::3:2');
  }
}

/**
 * The endpoints of the test cases, on one or two nodes. Each node has a table of observer rules before and after the tested rules: a packet
 * that only the first table recorded was dropped in between, independent of timing.
 */
export class PodNetwork {
  readonly #ends = new Map<string, End>();
  readonly #here: Node;
  readonly #there: Node | undefined;

  readonly #plugin: PodConnector;

  private constructor(here: Node, there: Node | undefined, plugin: PodConnector) {
    this.#here = here;
    this.#there = there;
    this.#plugin = plugin;
  }

  /** Starts the endpoints. Pods of this node use the network plugin; the others have veth pairs, on the second node if there is one. */
  static async begin({ nodes, network: name }: { readonly nodes: 1 | 2; readonly network: NetworkName }): Promise<PodNetwork> {
    const here = Node.here();
    const there = nodes === 2 ? await Node.there() : undefined;
    const network = new PodNetwork(here, there, await openNetwork(name));
    for (const [at, { key, local }] of casePeers.entries())
      network.#ends.set(
        key,
        await End.begin((pid) =>
          local
            ? network.#plugin.connect(pid)
            : cable(
                network.#nodeOf(key),
                `end${at}`,
                pid,
                families.map((family) => addressOf(at, family)),
                families.map((family) => gatewayOf(at, family)),
              ),
        ),
      );
    if (there !== undefined) {
      const far = casePeers.filter(({ key }) => network.#nodeOf(key) === there);
      connect(
        here,
        there,
        far.map(({ key }) => network.#end(key)),
      );
    }
    for (const node of network.#nodes) await nft(observing(), node.enter);
    return network;
  }

  /** Returns the command prefix that runs a program on the second node. */
  get enterElsewhere(): readonly string[] | undefined {
    return this.#there?.enter;
  }
  get #nodes(): readonly Node[] {
    return this.#there === undefined ? [this.#here] : [this.#here, this.#there];
  }
  #nodeOf(key: string): Node {
    const end = casePeers.find((each) => each.key === key);
    return end?.local === false && end.outside !== true ? (this.#there ?? this.#here) : this.#here;
  }

  address(key: string, family: PacketFamily): string {
    return this.#end(key).addresses[family === 4 ? 0 : 1] ?? '';
  }

  async send(packets: readonly Packet[]): Promise<readonly boolean[]> {
    for (const node of this.#nodes) await nft(forgetting, node.enter);
    await Promise.all(
      packets.map(
        ({ from, to, port, family }) =>
          this.#end(from).ask('send', { address: this.address(to, family), port: port.port, protocol: port.protocol, family }).answer,
      ),
    );
    for (;;) {
      // a packet traverses both tables of a node without interruption, and a listing is a consistent snapshot
      const seen = new Map<Node, Observed>();
      for (const node of this.#nodes) seen.set(node, await observed(node));
      const fates = packets.map((packet) => this.#fate(packet, seen));
      if (!fates.includes(undefined)) return fates.map((passed) => passed === true);
    }
  }

  /** Returns whether all nodes forwarded the packet, or undefined while it is on its way. */
  #fate(packet: Packet, all: ReadonlyMap<Node, Observed>): boolean | undefined {
    // packets of an endpoint to itself do not leave it
    if (packet.from === packet.to) return true;
    const { from, to, port, family } = packet;
    const word = `${this.address(from, family)} . ${this.address(to, family)} . ${port.protocol.toLowerCase()} . ${port.port}`;
    for (const node of new Set([this.#nodeOf(packet.from), this.#nodeOf(packet.to)])) {
      const { seen, passed } = all.get(node) ?? { seen: new Set(), passed: new Set() };
      if (!seen.has(word)) return undefined;
      if (!passed.has(word)) return false;
    }
    return true;
  }

  async converse({ from, to, port, family }: Packet): Promise<{ echo(): Promise<boolean>; close(): Promise<void> }> {
    const end = this.#end(from);
    const { id, answer } = end.ask('open', { address: this.address(to, family), port: port.port });
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
    await this.#plugin.close();
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
  const { nftables } = JSON.parse(await listRules(['table', 'inet', observer], enter)) as {
    readonly nftables: readonly { readonly set?: SetEntry }[];
  };
  const found = { seen: new Set<string>(), passed: new Set<string>() };
  for (const { set } of nftables)
    for (const { concat, elem } of set?.elem ?? [])
      found[set?.name.startsWith('seen') === true ? 'seen' : 'passed'].add((concat ?? elem?.val.concat ?? []).join(' . '));
  return found;
}
