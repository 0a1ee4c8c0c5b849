import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';

/** What an API server reports of itself in the storage. */
export interface ServerRecord {
  readonly name: string;
  /** URL at which other machines reach the server. */
  readonly url: string;
  readonly version: string;
  /** RFC 3339. */
  readonly startedAt: string;
  /** The generation of the keys that the server uses. */
  readonly keysGeneration: number;
  /** Hashes of the cluster CAs that the server has loaded, the signing CA first. */
  readonly trustedCAs: readonly string[];
  /** Hashes of the front-proxy CAs that the server has loaded, the signing CA first. */
  readonly frontProxyCAs: readonly string[];
  /** Absent if the server has no member of the storage. */
  readonly memberCAs?: MemberCAs;
}
/** Hashes of the CAs of the storage's members that the member of a server uses. */
export interface MemberCAs {
  readonly signing: string;
  readonly trusted: readonly string[];
}
export interface ListedServer extends ServerRecord {
  /** True if the server has renewed its lease within the last 15 seconds. */
  readonly ready: boolean;
}

const serverRoot = '/oarlock/servers/';
const leaseRoot = '/oarlock/server-leases/';
const leaseSeconds = 15;
const renewIntervalMs = 5_000;

export interface ServerRegistryOptions {
  readonly storage: StorageDriver;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The API servers that share a storage. Each one keeps a record until `oarlock server remove`, and a lease, which expires soon after the server ends.
 */
export class ServerRegistry {
  readonly #options: ServerRegistryOptions;
  #own: ServerRecord | undefined;
  #isRegistered = false;
  #timer: Timer | undefined;
  #renewal: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: ServerRegistryOptions) {
    this.#options = options;
  }

  /**
   * Writes the record and the lease of this server, and renews the lease until `stop`. If the storage rejects writes, the record is written later: a server
   * must start over a full storage, because the commands that free space need it.
   */
  async register(record: ServerRecord): Promise<void> {
    this.#own = record;
    this.#isRegistered = false;
    await this.#renew();
    this.#schedule();
  }

  /** Ends the renewal and removes the lease of this server; its record stays. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#renewal;
    const { storage, log } = this.#options;
    if (this.#own === undefined) return;
    try {
      await storage.commit([{ key: `${leaseRoot}${this.#own.name}`, value: null }], []);
    } catch (error) {
      log.warn({ error: String(error) }, 'the lease of this server could not be removed; it expires soon');
    }
  }

  /** Returns all servers that have not been removed, in the order of their names. */
  async list(): Promise<readonly ListedServer[]> {
    const { storage } = this.#options;
    const [records, leases] = await Promise.all([storage.range({ prefix: serverRoot }), storage.range({ prefix: leaseRoot })]);
    const live = new Set(leases.entries.map(({ key }) => key.slice(leaseRoot.length)));
    return records.entries.map(({ value }) => {
      const record = JSON.parse(Buffer.from(value).toString('utf8')) as ServerRecord;
      return { ...record, ready: live.has(record.name) };
    });
  }

  /** Removes the record of a server that has ended. Returns false if there is none, and 'running' if the server runs. */
  async remove(name: string): Promise<boolean | 'running'> {
    const { storage } = this.#options;
    const [record, lease] = await Promise.all([storage.get(`${serverRoot}${name}`), storage.get(`${leaseRoot}${name}`)]);
    if (record.entry === undefined) return false;
    const { ok } = await storage.commit(
      [{ key: `${serverRoot}${name}`, value: null }],
      [
        { key: `${serverRoot}${name}`, revision: record.entry.revision },
        { key: `${leaseRoot}${name}`, revision: 0 },
      ],
    );
    return ok || lease.entry === undefined ? ok : 'running';
  }

  #schedule(): void {
    this.#timer?.cancel();
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(renewIntervalMs, () => {
      this.#renewal = this.#renew().then(() => this.#schedule());
    });
  }

  async #renew(): Promise<void> {
    const { storage, log } = this.#options;
    const own = this.#own;
    if (own === undefined) return;
    const record = { key: `${serverRoot}${own.name}`, value: Buffer.from(JSON.stringify(own)) };
    try {
      await storage.commit([...(this.#isRegistered ? [] : [record]), leaseOf(own)], []);
      if (own === this.#own) this.#isRegistered = true;
    } catch (error) {
      log.warn({ error: String(error) }, 'the record or the lease of this server could not be written');
    }
  }
}

const leaseOf = ({ name }: ServerRecord) => ({ key: `${leaseRoot}${name}`, value: Buffer.from('{}'), ttlSeconds: leaseSeconds });
