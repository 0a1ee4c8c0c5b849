import { isIPv6 } from 'node:net';
import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import { deferred, type Deferred } from '@oarlock/primitives/concurrency/deferred';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { NetworkError } from '@oarlock/spi/network';
import { hostInterfaces } from './host-interfaces.ts';

const timeoutMs = 10_000;

export interface SourceAddressFilterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Name of the bridge. */
  readonly bridge: string;
  /** Applies a transaction. Returns why it was rejected, or undefined. By default the program nft. */
  readonly apply?: (script: string) => Promise<string | undefined>;
}

/** A part of a transaction, and its result. */
interface Change {
  readonly script: string;
  readonly done: Deferred;
}

/**
 * The rules that drop packets of pods with a source address that is not the pod's. Network policies and the relay of a node without root identify pods by
 * their addresses, and a pod may send packets with any source: NET_RAW is one of the default capabilities of containers.
 *
 * The bridge forwards frames between its ports, so reverse path filtering of IP, which knows the bridge only, does not distinguish pods. The rules are in
 * the bridge family of nftables, where packets still have the interface of their pod. They also drop ARP of other addresses, with which a pod would receive
 * packets for them, IPv6 router advertisements, and what is neither ARP nor IP.
 */
export class SourceAddressFilter {
  readonly #options: SourceAddressFilterOptions;
  readonly #table: string;
  readonly #apply: (script: string) => Promise<string | undefined>;
  /** True if nftables accepted the rules. */
  #active = false;
  /** Changes for the next transaction. */
  #pending: Change[] = [];
  /** The last transaction: each one starts after the former, so that `restore` does not lose elements of a concurrent `add`. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SourceAddressFilterOptions) {
    this.#options = options;
    this.#table = `bridge oarlock-${options.bridge}`;
    this.#apply = options.apply ?? ((script) => applyWithNft(options.clock, script));
  }

  /** Replaces the rules by those for the attachments of this node. Logs a warning if nftables does not accept them. */
  restore(results: () => readonly CniResult[]): Promise<void> {
    return this.#enqueue(async () => {
      const reason = await this.#apply(
        `${emptyRules(this.#table)}${results()
          .map((result) => this.#elements('add', result))
          .join('')}`,
      );
      this.#active = reason === undefined;
      if (!this.#active)
        this.#options.log.warn({ reason }, 'could not write rules of nftables: pods may send packets with addresses of other pods');
    });
  }

  /** Adds the addresses of an attachment. @throws NetworkError if nftables rejects them */
  add(result: CniResult): Promise<void> {
    return this.#change(this.#elements('add', result));
  }

  /** Removes the addresses of an attachment; also those that do not exist. @throws NetworkError if nftables fails */
  remove(result: CniResult): Promise<void> {
    // deleting an element that does not exist fails, adding one that exists does not
    return this.#change(this.#elements('add', result) + this.#elements('delete', result));
  }

  /** Changes that wait for a transaction share the next one: nft takes as long for many elements as for one. */
  #change(script: string): Promise<void> {
    if (script === '') return Promise.resolve();
    const change = { script, done: deferred() };
    this.#pending.push(change);
    if (this.#pending.length === 1) void this.#enqueue(() => this.#applyPending());
    return change.done.promise;
  }

  async #applyPending(): Promise<void> {
    const changes = this.#pending.splice(0);
    const reason = this.#active ? await this.#apply(changes.map(({ script }) => script).join('')) : undefined;
    for (const { script, done } of changes) {
      // a transaction is all or nothing: find out which change was rejected
      const own = reason === undefined || changes.length === 1 ? reason : await this.#apply(script);
      if (own === undefined) done.resolve();
      else done.reject(new NetworkError('PluginFailed', `nft: ${own}`));
    }
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined); // the caller receives the rejection
    return done;
  }

  #elements(verb: 'add' | 'delete', result: CniResult): string {
    const addresses = result.ips.map(({ address }) => address.split('/')[0] ?? '');
    return hostInterfaces(result)
      .flatMap(({ name }) => [
        ...addresses.map((address) => `${verb} element ${this.#table} ${isIPv6(address) ? 'own6' : 'own4'} { "${name}" . ${address} }\n`),
        `${verb} element ${this.#table} pods { "${name}" }\n`,
      ])
      .join('');
  }
}

async function applyWithNft(clock: Clock, script: string): Promise<string | undefined> {
  try {
    const { exitCode, stderr, killed } = await runProgram(clock, 'nft', ['-f', '-'], { stdin: script, timeoutMs });
    return exitCode === 0 ? undefined : (killed ?? stderr.trim().slice(0, 500));
  } catch (error) {
    return errorText(error);
  }
}

const emptyRules = (table: string): string => `add table ${table}
delete table ${table}
table ${table} {
  set pods { type ifname; }
  set own4 { type ifname . ipv4_addr; }
  set own6 { type ifname . ipv6_addr; }
  chain own-addresses {
    type filter hook prerouting priority -300; policy accept;
    iifname != @pods accept
    iifname . ip saddr @own4 accept
    arp saddr ip 0.0.0.0 accept
    iifname . arp saddr ip @own4 accept
    icmpv6 type nd-router-advert counter drop
    iifname . ip6 saddr @own6 accept
    ip6 saddr { ::, fe80::/10 } accept
    counter drop
  }
}
`;
