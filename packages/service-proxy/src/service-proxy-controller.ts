import { endpointSlices, nodes, services } from '@oarlock/api/resources';
import { objectKey } from '@oarlock/api/object';
import type { Node, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { inSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import type { Tracer } from '@opentelemetry/api';
import type { ProxyMetrics } from './proxy-metrics.ts';
import { TriggerTimes } from './trigger-times.ts';
import type { ServiceHealthServer } from './health/service-health-server.ts';
import { servicePorts } from './endpoints/service-ports.ts';
import { endpointSliceIndexKeys, serviceOfSlice, endpointSlicesByService } from './endpoints/endpoint-slice-index.ts';

export interface ServiceProxyControllerOptions {
  readonly informers: Informers;
  readonly proxy: ServiceProxy;
  readonly nodeName: string;
  /** Minimum interval between two applies, in milliseconds; changes within it are combined. */
  readonly minSyncMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly health: ServiceHealthServer;
  readonly metrics: ProxyMetrics;
}

const retryDelayMs = 1000;
const zoneLabel = 'topology.kubernetes.io/zone';

/** Collects changed Services and applies them to the service proxy together, one apply at a time. Retries failed changes. */
export class ServiceProxyController {
  readonly #options: ServiceProxyControllerOptions;
  readonly #services: Informer<Service>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #nodes: Informer<Node>;
  readonly #dirtyServices = new Map<string, SpanContext | undefined>();
  /** The ports that were applied for each Service, by Service key. */
  readonly #applied = new Map<string, ReadonlyMap<string, string>>();
  readonly #triggerTimes: TriggerTimes;
  readonly #unsubscribe: (() => void)[] = [];
  #isFirstSync = true;
  #timer: Timer | undefined;
  #applying: Promise<void> | undefined;
  #lastSyncAt = Number.NEGATIVE_INFINITY;
  #stopped = false;
  #error: string | undefined;
  readonly #firstApplied = withResolvers();

  constructor(options: ServiceProxyControllerOptions) {
    this.#options = options;
    this.#triggerTimes = new TriggerTimes(options.clock.now());
    this.#services = options.informers.forResource(services);
    this.#slices = options.informers.forResource(endpointSlices);
    this.#slices.addIndexer(endpointSlicesByService, endpointSliceIndexKeys);
    this.#nodes = options.informers.forResource(nodes, { fieldSelector: `metadata.name=${options.nodeName}` });
  }

  get error(): string | undefined {
    return this.#error;
  }
  /** The Node object of this node, or undefined until the informer delivers it. */
  get node(): Node | undefined {
    return this.#nodes.get(this.#options.nodeName);
  }
  /** Resolves when the initial state of all Services has been applied. */
  get whenSynced(): Promise<void> {
    return this.#firstApplied.promise;
  }

  async start(signal: AbortSignal): Promise<void> {
    const { metrics } = this.#options;
    const onService = (service: Service, spanContext: SpanContext | undefined) => {
      metrics.serviceChanges.inc();
      this.#markDirty(objectKey(service), spanContext);
    };
    const onSlice = (slice: EndpointSlice, spanContext: SpanContext | undefined) => {
      metrics.endpointChanges.inc();
      this.#markDirty(serviceOfSlice(slice), spanContext);
    };
    // topology hints depend on the node's zone, for every Service
    const onNode = (node: Node, old?: Node) => {
      if (node.metadata?.labels?.[zoneLabel] !== old?.metadata?.labels?.[zoneLabel])
        for (const service of this.#services.list()) this.#markDirty(objectKey(service), undefined);
    };
    this.#unsubscribe.push(
      this.#services.addEventHandler({
        onAdd: onService,
        onUpdate: (service, _old, spanContext) => onService(service, spanContext),
        onDelete: onService,
      }),
      this.#nodes.addEventHandler({ onAdd: (node) => onNode(node), onUpdate: (node, old) => onNode(node, old) }),
      this.#slices.addEventHandler({
        onAdd: (slice, spanContext) => {
          this.#triggerTimes.add(serviceOfSlice(slice), slice);
          onSlice(slice, spanContext);
        },
        onDelete: onSlice,
        onUpdate: (slice, old, spanContext) => {
          this.#triggerTimes.add(serviceOfSlice(slice), slice);
          onSlice(slice, spanContext);
          if (serviceOfSlice(old) !== serviceOfSlice(slice)) onSlice(old, spanContext);
        },
      }),
    );
    void Promise.all([this.#services.whenSynced(signal), this.#slices.whenSynced(signal)]).then(
      () => this.#scheduleSync(),
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

  #markDirty(key: string, spanContext: SpanContext | undefined): void {
    this.#dirtyServices.set(key, this.#dirtyServices.get(key) ?? spanContext);
    if (!this.#isFirstSync) this.#scheduleSync();
  }

  #scheduleSync(delayMs = 0): void {
    if (this.#stopped || this.#applying !== undefined || this.#timer !== undefined || !this.#services.hasSynced || !this.#slices.hasSynced)
      return;
    const { clock, minSyncMs } = this.#options;
    const wait = Math.max(delayMs, this.#lastSyncAt + minSyncMs - clock.monotonic());
    this.#timer = clock.after(wait, () => {
      this.#timer = undefined;
      this.#applying = this.#syncProxyRules().finally(() => {
        this.#applying = undefined;
        if (this.#dirtyServices.size > 0 || this.#isFirstSync) this.#scheduleSync(this.#error === undefined ? 0 : retryDelayMs);
      });
    });
  }

  async #syncProxyRules(): Promise<void> {
    const { proxy, nodeName, clock, log, tracer, health, metrics } = this.#options;
    const began = clock.monotonic();
    const zone = this.node?.metadata?.labels?.[zoneLabel];
    const batch = new Map(this.#dirtyServices);
    this.#dirtyServices.clear();
    const set: ServicePort[] = [];
    const removed: string[] = [];
    const next = new Map<string, ReadonlyMap<string, string>>();
    for (const key of batch.keys()) {
      const service = this.#services.get(key);
      const ports =
        service === undefined ? [] : servicePorts(service, this.#slices.byIndex(endpointSlicesByService, key), { name: nodeName, zone });
      const before = this.#applied.get(key);
      const now = new Map(ports.map((port) => [port.key, JSON.stringify(port)]));
      for (const port of ports) if (before?.get(port.key) !== now.get(port.key)) set.push(port);
      for (const old of before?.keys() ?? []) if (!now.has(old)) removed.push(old);
      next.set(key, now);
      health.set(key, ports);
    }
    if (set.length === 0 && removed.length === 0 && !this.#isFirstSync) {
      this.#triggerTimes.take(batch.keys());
      return;
    }
    const spanContexts = [...batch.values()].filter((spanContext) => spanContext !== undefined);
    const [spanContext, ...links] = spanContexts;
    try {
      await inSpan(
        tracer,
        'apply services',
        {
          spanContext,
          links: links.slice(0, 32),
          attributes: { 'oarlock.node': nodeName, 'oarlock.set': set.length, 'oarlock.removed': removed.length },
        },
        () => proxy.apply({ replace: this.#isFirstSync, set, removed, spanContext }),
      );
      this.#isFirstSync = false;
      this.#error = undefined;
      metrics.observeSync((clock.monotonic() - began) / 1000, clock.now() / 1000);
      for (const at of this.#triggerTimes.take(batch.keys())) metrics.observeProgramming((clock.now() - at) / 1000);
      for (const [key, ports] of next) {
        if (ports.size === 0) this.#applied.delete(key);
        else this.#applied.set(key, ports);
      }
      this.#firstApplied.resolve();
    } catch (error) {
      this.#error = (error as Error).message;
      log.error({ error: this.#error }, 'Services could not be applied; all Services are applied again');
      // the current state of the proxy is unknown, for example because another program changed it: the next apply replaces everything
      this.#isFirstSync = true;
      this.#applied.clear();
      for (const service of this.#services.list()) this.#dirtyServices.set(objectKey(service), this.#dirtyServices.get(objectKey(service)));
      for (const [key, why] of batch) this.#dirtyServices.set(key, this.#dirtyServices.get(key) ?? why);
    } finally {
      this.#lastSyncAt = clock.monotonic();
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
