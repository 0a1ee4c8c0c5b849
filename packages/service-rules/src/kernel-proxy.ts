import { readFile } from 'node:fs/promises';
import type { Logger } from '@oarlock/primitives/logger';
import type { ProxyChanges, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import type { Family } from './port-rules.ts';
import { changedUdpFrontends, deleteStaleConntrackEntries } from './udp-flows.ts';

/** A change of one Service port. `before` is undefined if the port is new, `after` if the port is removed. */
export interface PortChange {
  readonly before: ServicePort | undefined;
  readonly after: ServicePort | undefined;
}

/** Writes Service rules into the kernel, in one rule language such as nftables. */
export interface RuleWriter {
  /** The proxy mode, such as `nftables`. */
  readonly mode: string;
  /** Detects the kernel features that the rules depend on. */
  start(): Promise<void>;
  /** Replaces all rules in one transaction. */
  replace(ports: readonly ServicePort[]): Promise<void>;
  change(changes: readonly PortChange[]): Promise<void>;
  /** Removes all rules and chains of the proxy. */
  clear(): Promise<void>;
}

/**
 * A service proxy that programs the kernel. The rules stay when the process stops, so that traffic continues; the next start replaces them.
 */
export class KernelProxy implements ServiceProxy {
  readonly #writer: RuleWriter;
  readonly #families: readonly Family[];
  readonly #log: Logger;
  #programmed = new Map<string, ServicePort>();
  #conntrackMissing = false;

  constructor(writer: RuleWriter, families: readonly Family[], log: Logger) {
    this.#writer = writer;
    this.#families = families;
    this.#log = log;
  }

  get mode(): string {
    return this.#writer.mode;
  }

  start(): Promise<void> {
    return this.#writer.start();
  }

  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const known = this.#programmed;
    const next = replace ? new Map<string, ServicePort>() : new Map(known);
    for (const key of removed) next.delete(key);
    for (const port of set) next.set(port.key, port);
    const removedKeys = replace ? [...known.keys()].filter((key) => !next.has(key)) : removed;
    if (replace) await this.#writer.replace(set);
    else
      await this.#writer.change([
        ...removed.map((key) => ({ before: known.get(key), after: undefined })),
        ...set.map((port) => ({ before: known.get(port.key), after: port })),
      ]);
    this.#programmed = next;
    const frontends = changedUdpFrontends(known, set, removedKeys);
    if (frontends.size === 0 || this.#conntrackMissing || (await deleteStaleConntrackEntries(frontends, this.#families))) return;
    this.#conntrackMissing = true;
    this.#log.warn({}, 'conntrack is not installed (Debian package conntrack): flows of active UDP clients stay with removed endpoints');
  }

  /** Removes all rules. */
  async clear(): Promise<void> {
    await this.#writer.clear();
    this.#programmed = new Map();
  }
}

/**
 * Returns whether all Service traffic is masqueraded. For `auto`, returns true if the kernel has no bridge netfilter: replies between two pods
 * on the same bridge then bypass the host's rules and keep the original source address.
 */
export async function masqueradesAll({ masqueradeAll }: { readonly masqueradeAll: boolean | 'auto' }): Promise<boolean> {
  if (masqueradeAll !== 'auto') return masqueradeAll;
  try {
    return (await readFile('/proc/sys/net/bridge/bridge-nf-call-iptables', 'utf8')).trim() !== '1';
  } catch {
    return true; // no such sysctl: the kernel has no bridge netfilter
  }
}
