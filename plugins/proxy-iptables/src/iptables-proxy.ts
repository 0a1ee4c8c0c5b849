import type { Logger } from '@oarlock/primitives/logger';
import { KernelProxy, masqueradesAll, type PortChange, type RuleWriter } from '@oarlock/service-rules/kernel-proxy';
import type { KernelProxyOptions } from '@oarlock/service-rules/kernel-proxy-config';
import type { Family } from '@oarlock/service-rules/port-rules';
import type { ServicePort } from '@oarlock/spi/proxy';
import { chains, has, restore } from './iptables.ts';
import { dispatches, dispatchRule, hooks, noLines, portLines, prefix, removal, replacement, textOf, type Hook } from './ruleset.ts';

/** Programs Services as iptables chains, for machines whose other rules use iptables and for kernels without nftables maps. */
export const iptablesProxy = ({ log, ...options }: KernelProxyOptions & { readonly log: Logger }): KernelProxy =>
  new KernelProxy(new IptablesRules(options), options.families, log);

class IptablesRules implements RuleWriter {
  readonly mode = 'iptables';
  readonly #options: KernelProxyOptions;
  readonly #dispatch: Record<Family, string> = { ip: dispatches[0], ip6: dispatches[0] };
  #masqueradeAll = false;

  constructor(options: KernelProxyOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#masqueradeAll = await masqueradesAll(this.#options);
  }

  /** Replaces the rules of an earlier process: flushes its chains, and removes the chains that no Service needs any more. */
  async replace(ports: readonly ServicePort[]): Promise<void> {
    for (const family of this.#options.families) {
      const inUse = dispatchRule(this.#dispatch[family]);
      if (await has(family, { table: 'nat', chain: inUse.chain, rule: inUse.rule }))
        this.#dispatch[family] = dispatches.find((name) => name !== this.#dispatch[family]) ?? dispatches[0];
      const stale = await chains(family, 'nat', prefix);
      for (const text of replacement(ports, this.#ruleset(family), stale)) if (text !== '') await restore(family, text);
      for (const hook of hooks)
        if (!(await has(family, { table: hook.table, chain: hook.chain, rule: hook.rule }))) await restore(family, hookText('-I', hook));
    }
  }

  async change(changes: readonly PortChange[]): Promise<void> {
    for (const family of this.#options.families) {
      const lines = noLines();
      for (const change of changes) portLines(change, this.#ruleset(family), lines);
      const text = textOf(lines);
      if (text !== '') await restore(family, text);
    }
  }

  async clear(): Promise<void> {
    for (const family of this.#options.families) {
      for (const hook of hooks)
        if (await has(family, { table: hook.table, chain: hook.chain, rule: hook.rule })) await restore(family, hookText('-D', hook));
      for (const table of ['filter', 'nat'] as const)
        for (const text of removal(table, await chains(family, table, prefix))) if (text !== '') await restore(family, text);
    }
  }

  #ruleset(family: Family) {
    const { podCIDRs, nodePortAddresses = [] } = this.#options;
    return { family, podCIDRs, masqueradeAll: this.#masqueradeAll, nodePortAddresses, dispatch: this.#dispatch[family] };
  }
}

function hookText(verb: '-I' | '-D', { table, chain, rule }: Hook): string {
  const words = rule.map((word) => (word.includes(' ') ? `"${word}"` : word));
  return `*${table}\n${verb} ${chain} ${words.join(' ')}\nCOMMIT\n`;
}
