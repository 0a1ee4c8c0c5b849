import { readFile } from 'node:fs/promises';
import type { Logger } from '@oarlock/kernel/logger';
import type { ProxyChanges, ProxyEndpoint, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { nft, NftError } from './nft.ts';
import { baseRules, inOrder, noSteps, portRules, table, type Family, type Programmed, type RulesetOptions } from './ruleset.ts';
import { forgetStaleFlows, type UdpDoor } from './udp-flows.ts';

export interface NftablesProxyOptions {
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean | 'auto';
  readonly families: readonly Family[];
  readonly log: Logger;
}

/** Without it, an answer from one pod to another on the same bridge does not pass the host's rules and keeps its true address. */
async function bridgePassesRules(): Promise<boolean> {
  try {
    return (await readFile('/proc/sys/net/bridge/bridge-nf-call-iptables', 'utf8')).trim() === '1';
  } catch {
    return false; // no such sysctl: the kernel has no bridge netfilter
  }
}

/** Services as nftables maps: one lookup leads to a Service's chain, however many there are. A change touches only its own chains. */
export class NftablesProxy implements ServiceProxy {
  readonly #options: NftablesProxyOptions;
  #programmed = new Map<string, Programmed>();
  #masqueradeAll = false;
  #withoutConntrack = false;

  constructor(options: NftablesProxyOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { masqueradeAll } = this.#options;
    this.#masqueradeAll = masqueradeAll === 'auto' ? !(await bridgePassesRules()) : masqueradeAll;
  }

  /** Rules stay when the process stops: traffic goes on, and the next start replaces them in one step. */
  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const next = replace ? new Map<string, Programmed>() : new Map(this.#programmed);
    const lines: string[] = [];
    const known = replace ? new Map<string, Programmed>() : this.#programmed;
    for (const family of this.#options.families) {
      const rules = this.#rules(family);
      const steps = noSteps();
      if (replace) lines.push(baseRules(rules));
      for (const key of removed) portRules(known.get(key), undefined, rules, steps);
      for (const port of set) portRules(known.get(port.key), port, rules, steps);
      lines.push(...inOrder(steps));
    }
    for (const key of removed) next.delete(key);
    for (const port of set) next.set(port.key, { port, endpoints: port.endpoints });
    if (lines.length > 0) await nft(`${lines.join('\n')}\n`);
    const doors = changedUdpDoors(this.#programmed, set, replace ? [...this.#programmed.keys()].filter((key) => !next.has(key)) : removed);
    this.#programmed = next;
    if (doors.length > 0) await this.#forget(doors);
  }

  async #forget(doors: readonly UdpDoor[]): Promise<void> {
    if (this.#withoutConntrack) return;
    try {
      await forgetStaleFlows(doors, this.#options.families);
    } catch (error) {
      if (!(error instanceof NftError) || error.code !== 'NotInstalled') throw error;
      this.#withoutConntrack = true;
      this.#options.log.warn(
        {},
        'conntrack is not installed (Debian package conntrack): UDP clients that talk on stay with endpoints that went',
      );
    }
  }

  /** Takes all rules away. */
  async clear(): Promise<void> {
    await nft(this.#options.families.map((family) => `table ${family} ${table} {}\ndelete table ${family} ${table}\n`).join(''));
    this.#programmed = new Map();
  }

  #rules(family: Family): RulesetOptions {
    return { family, podCIDRs: this.#options.podCIDRs, masqueradeAll: this.#masqueradeAll };
  }
}

/** Where flows may have come to lead elsewhere: an address is new, it went, or an endpoint went. */
function changedUdpDoors(
  known: ReadonlyMap<string, Programmed>,
  set: readonly ServicePort[],
  removed: readonly string[],
): readonly UdpDoor[] {
  const doors = new Map<string, UdpDoor>();
  const open = (port: ServicePort, endpoints: readonly ProxyEndpoint[]) => {
    const names = new Set(endpoints.map(({ ip, port: number }) => `${ip} ${number}`));
    const at = (address: string | undefined, number: number) => {
      doors.set(`${address} ${number}`, { address, port: number, endpoints: names });
    };
    for (const address of [...port.clusterIPs, ...port.externalIPs, ...port.loadBalancerIPs]) at(address, port.port);
    if (port.nodePort !== undefined) at(undefined, port.nodePort);
  };
  const now = new Map(set.map((port) => [port.key, port]));
  for (const key of [...removed, ...now.keys()]) {
    const before = known.get(key)?.port;
    // what went first: where another Service has taken the address over, its endpoints are the ones that count
    if (before?.protocol === 'UDP' && !same(before, now.get(key))) open(before, []);
  }
  for (const port of set) if (port.protocol === 'UDP' && !same(known.get(port.key)?.port, port)) open(port, port.endpoints);
  return [...doors.values()];
}

/** Whether every flow of the one is a flow of the other. */
function same(before: ServicePort | undefined, now: ServicePort | undefined): boolean {
  const text = (port: ServicePort | undefined) =>
    port && JSON.stringify([port.protocol, port.port, port.nodePort, port.clusterIPs, port.externalIPs, port.loadBalancerIPs]);
  return (
    text(before) === text(now) &&
    before?.endpoints.every(({ ip, port }) => now?.endpoints.some((each) => each.ip === ip && each.port === port)) === true
  );
}
