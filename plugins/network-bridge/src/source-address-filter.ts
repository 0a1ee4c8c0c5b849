import { access } from 'node:fs/promises';
import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { NetworkError } from '@oarlock/spi/network';
import { hostInterfaces } from './host-interfaces.ts';
import { elementCommands, emptyRules, noRules } from './source-address-rules.ts';

const timeoutMs = 10_000;

export interface SourceAddressFilterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Name of the bridge. */
  readonly bridge: string;
  /** False: pods may use any source address. */
  readonly enabled: boolean;
}

/**
 * The rules that drop packets of pods with a source address that is not the pod's. Network policies and the relay of a node without root identify pods by
 * their addresses, and a pod may send packets with any source: NET_RAW is one of the default capabilities of containers.
 *
 * The bridge forwards frames between its ports, so reverse path filtering of IP, which knows the bridge only, does not distinguish pods. The rules are in
 * the bridge family of nftables, where packets still have the interface of their pod.
 */
export class SourceAddressFilter {
  readonly #options: SourceAddressFilterOptions;
  readonly #table: string;
  /** Attachments of container runtimes, whose DEL this process does not see. */
  readonly #ofRuntimes = new Set<CniResult>();
  /** True if nftables accepted the rules. */
  #active = false;
  /** The last transaction: each one starts after the former, so that `restore` does not lose elements of a concurrent `add`. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SourceAddressFilterOptions) {
    this.#options = options;
    this.#table = `bridge oarlock-${options.bridge}`;
  }

  /** False if the rules are turned off, or if nftables did not accept them. */
  get isActive(): boolean {
    return this.#active;
  }

  /**
   * Replaces the rules by those for the attachments of this node, or removes them if they are turned off. Logs a warning if nftables does not accept them.
   * `attachments` returns those of this process and those of container runtimes.
   */
  restore(attachments: () => Promise<{ readonly own: readonly CniResult[]; readonly ofRuntimes: readonly CniResult[] }>): Promise<void> {
    const { enabled, log } = this.#options;
    return this.#enqueue(async () => {
      if (!enabled) {
        await this.#reject(noRules(this.#table)); // without nftables there are no rules
        return;
      }
      const { own, ofRuntimes } = await attachments();
      this.#ofRuntimes.clear();
      for (const result of ofRuntimes) this.#ofRuntimes.add(result);
      const elements = [...own, ...ofRuntimes].map((result) => elementCommands('add', this.#table, result));
      const reason = await this.#reject(emptyRules(this.#table) + elements.join(''));
      this.#active = reason === undefined;
      if (!this.#active) log.warn({ reason }, 'could not write rules of nftables: pods may send packets with addresses of other pods');
    });
  }

  /** Adds the addresses of an attachment. @throws NetworkError if nftables rejects them */
  add(result: CniResult): Promise<void> {
    return this.#change(() => Promise.resolve(elementCommands('add', this.#table, result)));
  }

  /**
   * Adds the addresses of an attachment that a container runtime made, and removes those of earlier ones whose interface no longer exists, in one
   * transaction. @throws NetworkError if nftables rejects them
   */
  addOfRuntime(result: CniResult): Promise<void> {
    return this.#change(async () => {
      const known = [...this.#ofRuntimes];
      const exist = await Promise.all(known.map(hasInterface));
      const gone = known.filter((_one, index) => exist[index] === false);
      for (const one of gone) this.#ofRuntimes.delete(one);
      this.#ofRuntimes.add(result);
      return gone.map((one) => this.#removal(one)).join('') + elementCommands('add', this.#table, result);
    });
  }

  /** Removes the addresses of an attachment; also those that do not exist. @throws NetworkError if nftables fails */
  remove(result: CniResult): Promise<void> {
    return this.#change(() => Promise.resolve(this.#removal(result)));
  }

  /** Deleting an element that does not exist fails, adding one that exists does not. */
  #removal(result: CniResult): string {
    return elementCommands('add', this.#table, result) + elementCommands('delete', this.#table, result);
  }

  #change(script: () => Promise<string>): Promise<void> {
    return this.#enqueue(async () => {
      const commands = this.#active ? await script() : '';
      const reason = commands === '' ? undefined : await this.#reject(commands);
      if (reason !== undefined) throw new NetworkError('PluginFailed', `nft: ${reason}`);
    });
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined); // the caller receives the rejection
    return done;
  }

  /** Applies a transaction. Returns why nft rejected it, or undefined. */
  async #reject(script: string): Promise<string | undefined> {
    try {
      const { exitCode, stderr, killed } = await runProgram(this.#options.clock, 'nft', ['-f', '-'], { stdin: script, timeoutMs });
      return exitCode === 0 ? undefined : (killed ?? stderr.trim().slice(0, 500));
    } catch (error) {
      return errorText(error);
    }
  }
}

/** Returns true if a host end of an attachment exists. Reads /proc/sys, because /sys may belong to another network namespace. */
const hasInterface = async (result: CniResult): Promise<boolean> =>
  (
    await Promise.all(
      hostInterfaces(result).map(({ name }) =>
        access(`/proc/sys/net/ipv4/conf/${name}`).then(
          () => true,
          () => false,
        ),
      ),
    )
  ).includes(true);
