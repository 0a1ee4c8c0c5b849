import { objectKey } from '@oarlock/api/object';
import { endpointSlices, services } from '@oarlock/api/resources';
import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { DnsRecord, DnsServer } from '@oarlock/spi/dns';
import { dnsRecords } from './dns-records.ts';
import { endpointSliceIndexKeys, serviceOfSlice, endpointSlicesByService } from '../endpoints/endpoint-slice-index.ts';

export interface ClusterDnsControllerOptions {
  readonly informers: Informers;
  readonly dns: DnsServer;
  /** Minimum interval between two applies, in milliseconds; changes within it are combined. */
  readonly minSyncMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

const retryDelayMs = 1000;

/** Applies the DNS records of Services and EndpointSlices to the cluster DNS. */
export class ClusterDnsController {
  readonly #options: ClusterDnsControllerOptions;
  readonly #services: Informer<Service>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #dirtyServices = new Set<string>();
  /** The records applied for each Service, by name. */
  readonly #appliedRecords = new Map<string, ReadonlyMap<string, string>>();
  readonly #unsubscribe: (() => void)[] = [];
  #isFirstSync = true;
  #timer: Timer | undefined;
  #applying: Promise<void> | undefined;
  #stopped = false;
  #error: string | undefined;

  constructor(options: ClusterDnsControllerOptions) {
    this.#options = options;
    this.#services = options.informers.forResource(services);
    this.#slices = options.informers.forResource(endpointSlices);
    this.#slices.addIndexer(endpointSlicesByService, endpointSliceIndexKeys);
  }

  get error(): string | undefined {
    return this.#error;
  }

  start(signal: AbortSignal): void {
    const onService = (service: Service) => this.#markDirty(objectKey(service));
    const onSlice = (slice: EndpointSlice) => this.#markDirty(serviceOfSlice(slice));
    this.#unsubscribe.push(
      this.#services.addEventHandler({ onAdd: onService, onUpdate: onService, onDelete: onService }),
      this.#slices.addEventHandler({
        onAdd: onSlice,
        onDelete: onSlice,
        onUpdate: (slice, old) => {
          onSlice(slice);
          if (serviceOfSlice(old) !== serviceOfSlice(slice)) onSlice(old);
        },
      }),
    );
    void Promise.all([this.#services.whenSynced(signal), this.#slices.whenSynced(signal)]).then(
      () => this.#scheduleSync(0),
      (error: unknown) => {
        if (!signal.aborted) this.#error = String(error);
      },
    );
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    for (const off of this.#unsubscribe) off();
    await this.#applying;
  }

  #markDirty(key: string): void {
    this.#dirtyServices.add(key);
    if (!this.#isFirstSync) this.#scheduleSync(this.#options.minSyncMs);
  }

  #scheduleSync(delayMs: number): void {
    if (this.#stopped || this.#applying !== undefined || this.#timer !== undefined) return;
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#applying = this.#sync().finally(() => {
        this.#applying = undefined;
        if (this.#dirtyServices.size > 0 || this.#isFirstSync)
          this.#scheduleSync(this.#error === undefined ? this.#options.minSyncMs : retryDelayMs);
      });
    });
  }

  async #sync(): Promise<void> {
    const batch = [...this.#dirtyServices];
    this.#dirtyServices.clear();
    const set: DnsRecord[] = [];
    const removed: string[] = [];
    const next = new Map<string, ReadonlyMap<string, string>>();
    for (const key of batch) {
      const service = this.#services.get(key);
      const records = service === undefined ? [] : dnsRecords(service, this.#slices.byIndex(endpointSlicesByService, key));
      const before = this.#appliedRecords.get(key);
      const now = new Map(records.map((record) => [record.name, JSON.stringify(record)]));
      for (const record of records) if (before?.get(record.name) !== now.get(record.name)) set.push(record);
      for (const old of before?.keys() ?? []) if (!now.has(old)) removed.push(old);
      next.set(key, now);
    }
    if (set.length === 0 && removed.length === 0 && !this.#isFirstSync) return;
    try {
      await this.#options.dns.apply({ replace: this.#isFirstSync, set, removed });
      this.#isFirstSync = false;
      this.#error = undefined;
      for (const [key, names] of next) {
        if (names.size === 0) this.#appliedRecords.delete(key);
        else this.#appliedRecords.set(key, names);
      }
    } catch (error) {
      this.#error = (error as Error).message;
      this.#options.log.error({ error: this.#error }, 'DNS records could not be applied; all records are applied again');
      this.#isFirstSync = true;
      this.#appliedRecords.clear();
      for (const service of this.#services.list()) this.#dirtyServices.add(objectKey(service));
    }
  }
}
