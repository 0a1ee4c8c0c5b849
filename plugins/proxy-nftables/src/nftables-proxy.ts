import type { Logger } from '@oarlock/primitives/logger';
import { nft } from '@oarlock/nftables/nft';
import { KernelProxy, masqueradesAll, type PortChange, type RuleWriter } from '@oarlock/service-rules/kernel-proxy';
import type { KernelProxyOptions } from '@oarlock/service-rules/kernel-proxy-config';
import type { ServicePort } from '@oarlock/spi/proxy';
import { inOrder, noSteps, portRules, table, tableText, type RulesetOptions } from './ruleset.ts';

/**
 * Programs Services as nftables maps: one lookup finds the chain of a Service, regardless of the number of Services. A change of a Service affects
 * only the Service's own chains.
 */
export const nftablesProxy = ({ log, ...options }: KernelProxyOptions & { readonly log: Logger }): KernelProxy =>
  new KernelProxy(new NftablesRules(options), options.families, log);

class NftablesRules implements RuleWriter {
  readonly mode = 'nftables';
  readonly #options: KernelProxyOptions;
  #masqueradeAll = false;

  constructor(options: KernelProxyOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#masqueradeAll = await masqueradesAll(this.#options);
  }

  replace(ports: readonly ServicePort[]): Promise<void> {
    return this.#write((options) => tableText(ports, options));
  }

  change(changes: readonly PortChange[]): Promise<void> {
    return this.#write((options) => {
      const steps = noSteps();
      for (const change of changes) portRules(change, options, steps);
      return inOrder(steps).join('\n');
    });
  }

  async clear(): Promise<void> {
    await nft(this.#options.families.map((family) => `table ${family} ${table} {}\ndelete table ${family} ${table}\n`).join(''));
  }

  async #write(textOf: (options: RulesetOptions) => string): Promise<void> {
    const { podCIDRs, nodePortAddresses = [], families } = this.#options;
    const text = families.map((family) => textOf({ family, podCIDRs, masqueradeAll: this.#masqueradeAll, nodePortAddresses })).join('\n');
    if (text.trim() !== '') await nft(`${text}\n`);
  }
}
