import { readFile } from 'node:fs/promises';
import type { Logger } from '@oarlock/primitives/logger';
import type { ProxyChanges, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import type { Family } from './port-rules.ts';
import { changedUdpFrontends, deleteStaleConntrackEntries } from './udp-flows.ts';

/** From `before` to `after`; what is absent was not there, or goes. */
export interface PortChange {
  readonly before: ServicePort | undefined;
  readonly after: ServicePort | undefined;
}

/** Writes rules into the kernel, in a language of its own. */
export interface RuleWriter {
  /** The proxy's own. */
  readonly mode: string;
  /** Finds out what its rules depend on. */
  start(): Promise<void>;
  /** Replaces whatever there was, in one step. */
  replace(ports: readonly ServicePort[]): Promise<void>;
  change(changes: readonly PortChange[]): Promise<void>;
  /** Takes everything of ours away. */
  clear(): Promise<void>;
}

/** A service proxy that is rules in the kernel. They stay when the process stops: traffic goes on, and the next start replaces them. */
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
    const gone = replace ? [...known.keys()].filter((key) => !next.has(key)) : removed;
    if (replace) await this.#writer.replace(set);
    else
      await this.#writer.change([
        ...removed.map((key) => ({ before: known.get(key), after: undefined })),
        ...set.map((port) => ({ before: known.get(port.key), after: port })),
      ]);
    this.#programmed = next;
    const doors = changedUdpFrontends(known, set, gone);
    if (doors.size === 0 || this.#conntrackMissing || (await deleteStaleConntrackEntries(doors, this.#families))) return;
    this.#conntrackMissing = true;
    this.#log.warn({}, 'conntrack is not installed (Debian package conntrack): UDP clients that talk on stay with endpoints that went');
  }

  /** Takes all rules away. */
  async clear(): Promise<void> {
    await this.#writer.clear();
    this.#programmed = new Map();
  }
}

/**
 * Whether all Service traffic gets the node's address. `auto`: where the kernel has no bridge netfilter. There, an answer from one pod to
 * another on the same bridge does not pass the host's rules and keeps its true address.
 */
export async function masqueradesAll({ masqueradeAll }: { readonly masqueradeAll: boolean | 'auto' }): Promise<boolean> {
  if (masqueradeAll !== 'auto') return masqueradeAll;
  try {
    return (await readFile('/proc/sys/net/bridge/bridge-nf-call-iptables', 'utf8')).trim() !== '1';
  } catch {
    return true; // no such sysctl: the kernel has no bridge netfilter
  }
}
