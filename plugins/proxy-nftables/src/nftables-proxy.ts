import type { Logger } from '@oarlock/kernel/logger';
import { bridgePassesRules, KernelProxy, type PortChange, type RuleWriter } from '@oarlock/service-rules/kernel-proxy';
import type { Family } from '@oarlock/service-rules/port-plan';
import type { ServicePort } from '@oarlock/spi/proxy';
import { nft } from './nft.ts';
import { inOrder, noSteps, portRules, table, tableText, type RulesetOptions } from './ruleset.ts';

export interface NftablesProxyOptions {
  readonly podCIDRs: readonly string[];
  readonly masqueradeAll: boolean | 'auto';
  readonly families: readonly Family[];
  readonly nodePortAddresses?: readonly string[];
  readonly log: Logger;
}

/** Services as nftables maps: one lookup leads to a Service's chain, however many there are. A change touches only its own chains. */
export class NftablesProxy extends KernelProxy {
  readonly #writer: NftablesRules;

  constructor(options: NftablesProxyOptions) {
    const writer = new NftablesRules(options);
    super(writer, options.families, options.log);
    this.#writer = writer;
  }

  start(): Promise<void> {
    return this.#writer.start();
  }
}

class NftablesRules implements RuleWriter {
  readonly #options: NftablesProxyOptions;
  #masqueradeAll = false;

  constructor(options: NftablesProxyOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { masqueradeAll } = this.#options;
    this.#masqueradeAll = masqueradeAll === 'auto' ? !(await bridgePassesRules()) : masqueradeAll;
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
