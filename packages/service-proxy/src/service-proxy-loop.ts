import { endpointSlices, nodes, services } from '@oarlock/api/resources';
import { objectKey } from '@oarlock/api/object';
import type { Node, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { inSpan, type Cause } from '@oarlock/kernel/tracing';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import type { Tracer } from '@opentelemetry/api';
import type { ProxyMetrics } from './proxy-metrics.ts';
import type { ServiceHealth } from './service-health.ts';
import { servicePorts } from './service-ports.ts';
import { bySliceService, serviceOfSlice, sliceIndex } from './slices.ts';

export interface LoopOptions {
  readonly informers: Informers;
  readonly proxy: ServiceProxy;
  readonly nodeName: string;
  /** Changes that come within so many milliseconds of an apply go into the next one. */
  readonly minSyncMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly health: ServiceHealth;
  readonly metrics: ProxyMetrics;
}

const retryMs = 1000;
const zoneLabel = 'topology.kubernetes.io/zone';

/** Collects which Services changed and applies them together, one apply at a time. What failed is applied again. */
export class ServiceProxyLoop {
  readonly #options: LoopOptions;
  readonly #services: Informer<Service>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #nodes: Informer<Node>;
  readonly #dirty = new Map<string, Cause | undefined>();
  /** Keys of the ports applied for each Service, with what was applied. */
  readonly #applied = new Map<string, ReadonlyMap<string, string>>();
  readonly #off: (() => void)[] = [];
  #first = true;
  #timer: Timer | undefined;
  #applying: Promise<void> | undefined;
  #lastApply = Number.NEGATIVE_INFINITY;
  #stopped = false;
  #error: string | undefined;
  readonly #firstApplied = withResolvers();

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#services = options.informers.of(services);
    this.#slices = options.informers.of(endpointSlices);
    this.#slices.addIndex(sliceIndex, bySliceService);
    this.#nodes = options.informers.of(nodes, { fieldSelector: `metadata.name=${options.nodeName}` });
  }

  get error(): string | undefined {
    return this.#error;
  }
  /** Of this node, undefined until it is known. */
  get node(): Node | undefined {
    return this.#nodes.get(this.#options.nodeName);
  }
  /** Resolves when everything there was at the start has been applied. */
  get synced(): Promise<void> {
    return this.#firstApplied.promise;
  }

  async start(signal: AbortSignal): Promise<void> {
    const { metrics } = this.#options;
    const onService = (service: Service, cause: Cause | undefined) => {
      metrics.serviceChanges.inc();
      this.#mark(objectKey(service), cause);
    };
    const onSlice = (slice: EndpointSlice, cause: Cause | undefined) => {
      metrics.endpointChanges.inc();
      this.#mark(serviceOfSlice(slice), cause);
    };
    // what is near changes with the zone, for every Service
    const onNode = (node: Node, old?: Node) => {
      if (node.metadata?.labels?.[zoneLabel] !== old?.metadata?.labels?.[zoneLabel])
        for (const service of this.#services.list()) this.#mark(objectKey(service), undefined);
    };
    this.#off.push(
      this.#services.on({ added: onService, updated: (service, _old, cause) => onService(service, cause), deleted: onService }),
      this.#nodes.on({ added: (node) => onNode(node), updated: (node, old) => onNode(node, old) }),
      this.#slices.on({
        added: onSlice,
        deleted: onSlice,
        updated: (slice, old, cause) => {
          onSlice(slice, cause);
          if (serviceOfSlice(old) !== serviceOfSlice(slice)) onSlice(old, cause);
        },
      }),
    );
    void Promise.all([this.#services.whenSynced(signal), this.#slices.whenSynced(signal)]).then(
      () => this.#wake(),
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

  #mark(key: string, cause: Cause | undefined): void {
    this.#dirty.set(key, this.#dirty.get(key) ?? cause);
    if (!this.#first) this.#wake();
  }

  #wake(delayMs = 0): void {
    if (this.#stopped || this.#applying !== undefined || this.#timer !== undefined || !this.#services.synced || !this.#slices.synced)
      return;
    const { clock, minSyncMs } = this.#options;
    const wait = Math.max(delayMs, this.#lastApply + minSyncMs - clock.monotonic());
    this.#timer = clock.after(wait, () => {
      this.#timer = undefined;
      this.#applying = this.#apply().finally(() => {
        this.#applying = undefined;
        if (this.#dirty.size > 0 || this.#first) this.#wake(this.#error === undefined ? 0 : retryMs);
      });
    });
  }

  async #apply(): Promise<void> {
    const { proxy, nodeName, clock, log, tracer, health, metrics } = this.#options;
    const began = clock.monotonic();
    const zone = this.node?.metadata?.labels?.[zoneLabel];
    const batch = new Map(this.#dirty);
    this.#dirty.clear();
    const set: ServicePort[] = [];
    const removed: string[] = [];
    const next = new Map<string, ReadonlyMap<string, string>>();
    for (const key of batch.keys()) {
      const service = this.#services.get(key);
      const ports = service === undefined ? [] : servicePorts(service, this.#slices.byIndex(sliceIndex, key), { name: nodeName, zone });
      const before = this.#applied.get(key);
      const now = new Map(ports.map((port) => [port.key, JSON.stringify(port)]));
      for (const port of ports) if (before?.get(port.key) !== now.get(port.key)) set.push(port);
      for (const old of before?.keys() ?? []) if (!now.has(old)) removed.push(old);
      next.set(key, now);
      health.set(key, ports);
    }
    if (set.length === 0 && removed.length === 0 && !this.#first) return;
    const causes = [...batch.values()].filter((cause) => cause !== undefined);
    const [cause, ...links] = causes;
    try {
      await inSpan(
        tracer,
        'apply services',
        {
          cause,
          links: links.slice(0, 32),
          attributes: { 'oarlock.node': nodeName, 'oarlock.set': set.length, 'oarlock.removed': removed.length },
        },
        () => proxy.apply({ replace: this.#first, set, removed, cause }),
      );
      this.#first = false;
      this.#error = undefined;
      metrics.applied((clock.monotonic() - began) / 1000, clock.now() / 1000);
      for (const [key, ports] of next) {
        if (ports.size === 0) this.#applied.delete(key);
        else this.#applied.set(key, ports);
      }
      this.#firstApplied.resolve();
    } catch (error) {
      this.#error = (error as Error).message;
      log.error({ error: this.#error }, 'services could not be applied; all of them are applied again');
      // what is in force is not known any more, perhaps because somebody else changed it: it is replaced as a whole
      this.#first = true;
      this.#applied.clear();
      for (const service of this.#services.list()) this.#dirty.set(objectKey(service), this.#dirty.get(objectKey(service)));
      for (const [key, why] of batch) this.#dirty.set(key, this.#dirty.get(key) ?? why);
    } finally {
      this.#lastApply = clock.monotonic();
    }
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (reason: unknown) => void } {
  let resolve!: () => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<void>((ok, no) => {
    resolve = ok;
    reject = no;
  });
  return { promise, resolve, reject };
}
