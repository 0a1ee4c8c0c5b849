import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';
import { serverLeaseRoot, type ServerLease } from './server-leases.ts';

export interface EndpointLeasesOptions {
  readonly storage: StorageDriver;
  /** The IP address and port at which other machines reach this server. */
  readonly address: string;
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the lease of a server has appeared or ended. */
  readonly onChange: () => Promise<void>;
}

/**
 * Times in milliseconds, and the time to live in seconds. Servers that share a storage renew more often: the address of a dead server must leave the
 * endpoints within 15 seconds, and etcd may keep a key for a twentieth of its time to live longer.
 */
const alone = { leaseSeconds: 15, renewIntervalMs: 10_000 };
const shared = { leaseSeconds: 10, renewIntervalMs: 3_000 };
const retryDelayMs = 1_000;

/** The leases of running API servers in the storage, as those of upstream's lease endpoint reconciler. Each server renews its own. */
export class EndpointLeases {
  readonly #options: EndpointLeasesOptions;
  readonly #times: typeof alone;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #renewal: Promise<void> = Promise.resolve();
  #following: Promise<void> = Promise.resolve();

  constructor(options: EndpointLeasesOptions) {
    this.#options = options;
    this.#times = options.storage.traits.shared ? shared : alone;
  }

  /** Renews the lease periodically, and reports changes of the leases if other servers may write them. */
  start(): void {
    if (!this.#options.storage.traits.shared) return; // the caller renews the lease when it reconciles
    this.#schedule();
    this.#following = this.#follow();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    this.#timer?.cancel();
    await Promise.all([this.#renewal, this.#following]);
  }

  async renew(): Promise<void> {
    const { storage, address, port } = this.#options;
    const value = Buffer.from(JSON.stringify({ port } satisfies ServerLease));
    await storage.commit([{ key: `${serverLeaseRoot}${address}`, value, ttlSeconds: this.#times.leaseSeconds }], []);
  }

  async remove(): Promise<void> {
    const { storage, address } = this.#options;
    await storage.commit([{ key: `${serverLeaseRoot}${address}`, value: null }], []);
  }

  /** Returns the addresses of all servers with a lease, sorted. */
  async addresses(): Promise<readonly string[]> {
    const { entries } = await this.#options.storage.range({ prefix: serverLeaseRoot });
    return entries.map(({ key }) => key.slice(serverLeaseRoot.length)).sort();
  }

  #schedule(): void {
    const { clock, log } = this.#options;
    if (this.#stop.signal.aborted) return;
    this.#timer = clock.after(this.#times.renewIntervalMs, () => {
      this.#renewal = this.renew()
        .catch((error: unknown) => log.warn({ error: String(error) }, 'the lease of this API server could not be renewed'))
        .then(() => this.#schedule());
    });
  }

  async #follow(): Promise<void> {
    const { storage, clock, log, onChange } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const { revision } = await storage.range({ prefix: serverLeaseRoot, limit: 1 });
        await onChange();
        for await (const { changes } of storage.watch(serverLeaseRoot, { after: revision, signal }))
          if (changes.some((change) => change.type === 'delete' || change.previous === undefined)) await onChange();
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ error: String(error), retryMs: retryDelayMs }, 'the leases of the API servers could not be followed');
        await clock.sleep(retryDelayMs, signal).catch(() => undefined); // aborted: the loop ends
      }
    }
  }
}
