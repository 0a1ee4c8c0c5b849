import { readFile } from 'node:fs/promises';
import type { Logger } from '@oarlock/kernel/logger';
import type { ProxyChanges, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { forgetUdpFlows, nft } from './nft.ts';
import { baseRules, portRules, table, type Family, type Programmed, type RulesetOptions } from './ruleset.ts';

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

  constructor(options: NftablesProxyOptions) { this.#options = options; }

  async start(): Promise<void> {
    const { masqueradeAll } = this.#options;
    this.#masqueradeAll = masqueradeAll === 'auto' ? !await bridgePassesRules() : masqueradeAll;
  }

  /** Rules stay when the process stops: traffic goes on, and the next start replaces them in one step. */
  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const next = replace ? new Map<string, Programmed>() : new Map(this.#programmed);
    const lines: string[] = [];
    const known = replace ? new Map<string, Programmed>() : this.#programmed;
    for (const family of this.#options.families) {
      const rules = this.#rules(family);
      if (replace) lines.push(baseRules(rules));
      for (const key of removed) lines.push(...portRules(known.get(key), undefined, rules));
      for (const port of set) lines.push(...portRules(known.get(port.key), port, rules));
    }
    for (const key of removed) next.delete(key);
    for (const port of set) next.set(port.key, { port, endpoints: port.endpoints });
    if (lines.length > 0) await nft(`${lines.join('\n')}\n`);
    const gone = staleFlows(known, set, removed);
    this.#programmed = next;
    if (gone.length > 0) await forgetUdpFlows(gone);
  }

  /** Takes all rules away. */
  async clear(): Promise<void> {
    await nft(this.#options.families.map((family) => `table ${family} ${table} {}\ndelete table ${family} ${table}\n`).join(''));
    this.#programmed = new Map();
  }

  #rules(family: Family): RulesetOptions { return { family, podCIDRs: this.#options.podCIDRs, masqueradeAll: this.#masqueradeAll }; }
}

function staleFlows(known: ReadonlyMap<string, Programmed>, set: readonly ServicePort[], removed: readonly string[]): readonly { readonly address: string; readonly endpoint: string }[] {
  const now = new Map(set.map((port) => [port.key, port]));
  return [...removed, ...now.keys()].flatMap((key) => {
    const before = known.get(key);
    if (before?.port.protocol !== 'UDP') return [];
    const staying = new Set(now.get(key)?.endpoints.map(({ ip }) => ip));
    const { clusterIPs, externalIPs, loadBalancerIPs } = before.port;
    return before.endpoints.filter(({ ip }) => !staying.has(ip)).flatMap(({ ip }) => [...clusterIPs, ...externalIPs, ...loadBalancerIPs].map((address) => ({ address, endpoint: ip })));
  });
}
