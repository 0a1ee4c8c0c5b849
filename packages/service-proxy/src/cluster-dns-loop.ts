import { objectKey } from '@oarlock/api/object';
import { endpointSlices, services } from '@oarlock/api/resources';
import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { DnsRecord, DnsServer } from '@oarlock/spi/dns';
import { dnsRecords } from './dns-records.ts';
import { bySliceService, serviceOfSlice, sliceIndex } from './slices.ts';

export interface ClusterDnsOptions {
  readonly informers: Informers;
  readonly dns: DnsServer;
  /** Changes that come within so many milliseconds go into one apply. */
  readonly minSyncMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

const retryMs = 1000;

/** Tells the cluster's DNS which names there are, as Services and their endpoints come and go. */
export class ClusterDnsLoop {
  readonly #options: ClusterDnsOptions;
  readonly #services: Informer<Service>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #dirty = new Set<string>();
  /** The names of each Service, with what was said of them. */
  readonly #applied = new Map<string, ReadonlyMap<string, string>>();
  readonly #off: (() => void)[] = [];
  #first = true;
  #timer: Timer | undefined;
  #applying: Promise<void> | undefined;
  #stopped = false;
  #error: string | undefined;

  constructor(options: ClusterDnsOptions) {
    this.#options = options;
    this.#services = options.informers.of(services);
    this.#slices = options.informers.of(endpointSlices);
    this.#slices.addIndex(sliceIndex, bySliceService);
  }

  get error(): string | undefined {
    return this.#error;
  }

  start(signal: AbortSignal): void {
    const onService = (service: Service) => this.#mark(objectKey(service));
    const onSlice = (slice: EndpointSlice) => this.#mark(serviceOfSlice(slice));
    this.#off.push(
      this.#services.on({ added: onService, updated: onService, deleted: onService }),
      this.#slices.on({
        added: onSlice,
        deleted: onSlice,
        updated: (slice, old) => {
          onSlice(slice);
          if (serviceOfSlice(old) !== serviceOfSlice(slice)) onSlice(old);
        },
      }),
    );
    void Promise.all([this.#services.whenSynced(signal), this.#slices.whenSynced(signal)]).then(
      () => this.#wake(0),
      (error: unknown) => {
        if (!signal.aborted) this.#error = String(error);
      },
    );
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    for (const off of this.#off) off();
    await this.#applying;
  }

  #mark(key: string): void {
    this.#dirty.add(key);
    if (!this.#first) this.#wake(this.#options.minSyncMs);
  }

  #wake(delayMs: number): void {
    if (this.#stopped || this.#applying !== undefined || this.#timer !== undefined) return;
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#applying = this.#apply().finally(() => {
        this.#applying = undefined;
        if (this.#dirty.size > 0 || this.#first) this.#wake(this.#error === undefined ? this.#options.minSyncMs : retryMs);
      });
    });
  }

  async #apply(): Promise<void> {
    const batch = [...this.#dirty];
    this.#dirty.clear();
    const set: DnsRecord[] = [];
    const removed: string[] = [];
    const next = new Map<string, ReadonlyMap<string, string>>();
    for (const key of batch) {
      const service = this.#services.get(key);
      const records = service === undefined ? [] : dnsRecords(service, this.#slices.byIndex(sliceIndex, key));
      const before = this.#applied.get(key);
      const now = new Map(records.map((record) => [record.name, JSON.stringify(record)]));
      for (const record of records) if (before?.get(record.name) !== now.get(record.name)) set.push(record);
      for (const old of before?.keys() ?? []) if (!now.has(old)) removed.push(old);
      next.set(key, now);
    }
    if (set.length === 0 && removed.length === 0 && !this.#first) return;
    try {
      await this.#options.dns.apply({ replace: this.#first, set, removed });
      this.#first = false;
      this.#error = undefined;
      for (const [key, names] of next) {
        if (names.size === 0) this.#applied.delete(key);
        else this.#applied.set(key, names);
      }
    } catch (error) {
      this.#error = (error as Error).message;
      this.#options.log.error({ error: this.#error }, 'names could not be applied; all of them are applied again');
      this.#first = true;
      this.#applied.clear();
      for (const service of this.#services.list()) this.#dirty.add(objectKey(service));
    }
  }
}
