import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { AccessMetrics } from './access-metrics.ts';
import { AdmissionChain } from './admission-chain.ts';
import type { AdmissionMetrics } from './admission-metrics.ts';
import type { RuleMetrics } from './custom-resources/rule-metrics.ts';
import { attributesOf, authorize, type Names } from './authorization.ts';
import { Call } from './call.ts';
import { Catalog } from './catalog.ts';
import { Compactor } from './compactor.ts';
import { Dispatch } from './dispatch.ts';
import type { Machinery } from './machinery.ts';
import { ObjectStore } from './object-store.ts';
import { systemRandom, type Random } from './random.ts';
import { rbacEscalation } from './rbac-escalation.ts';
import { Reader } from './registry-read.ts';
import { ConversionWebhooks } from './custom-resources/conversion-webhook.ts';
import { CustomResources, definitionsName, definitionsPrefix } from './custom-resources/custom-resources.ts';
import { DefinitionLifecycle } from './custom-resources/lifecycle.ts';
import { webhookService } from './custom-resources/webhook-service.ts';
import type { PipelineResponse } from './response.ts';
import type { ServedKind } from './served-kind.ts';
import { ServiceRanges } from './service-ranges.ts';
import { storageFault } from './storage-fault.ts';
import { enabledKinds, type RuntimeConfig } from './runtime-config.ts';
import type { Component } from './subresources/component-statuses.ts';
import { resolveService, type Resolved } from './subresources/proxy.ts';
import type { ResourceCache } from './watch-cache/resource-cache.ts';
import { WatchCache } from './watch-cache/watch-cache.ts';
import { versionsOf } from './versions.ts';

export interface PipelineOptions {
  readonly storage: StorageDriver;
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  /** Asked by TokenReviews. */
  readonly authn?: readonly Authenticator[];
  readonly facts: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer?: Tracer;
  readonly random?: Random;
  /** Whether what storage holds for a value is to be written anew although the value stays as it is. */
  readonly stale?: (value: Uint8Array) => boolean;
  /** What componentstatuses shows. */
  readonly components?: () => readonly Component[];
  /** Which versions are served besides those that are by default, or are not. */
  readonly runtimeConfig?: RuntimeConfig;
  /** Names of the plugins, in the order of the chains, for spans. */
  readonly names?: { readonly authz?: Names; readonly admission?: Names };
  /** What is measured on the way. */
  readonly metrics?: PipelineMetrics;
}

export interface PipelineMetrics {
  readonly access: AccessMetrics;
  readonly admission: AdmissionMetrics;
  readonly rules: RuleMetrics;
}

const interactive: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward']);

/**
 * Everything between a request that is understood and its answer. The stages, in the order in which they run:
 *
 *   authorize -> resolve -> decode and convert the body -> mutating admission -> defaults and validation -> validating admission ->
 *   store -> respond
 *
 * The first is here, the second in dispatch.ts; the rest, which depends on the verb, is in registry-*.ts, one function per verb in the same order.
 */
export class Pipeline {
  readonly #catalog: Catalog;
  readonly #cache: WatchCache;
  readonly #machinery: Machinery;
  readonly #tracer: Tracer;
  readonly #names: { readonly authz: Names };
  readonly #access: AccessMetrics | undefined;
  readonly #compactor: Compactor;
  readonly #lifecycle: DefinitionLifecycle;
  readonly #webhooks: ConversionWebhooks;
  readonly #dispatch: Dispatch;

  constructor({
    storage,
    authz,
    admission,
    authn = [],
    facts,
    keys,
    clock,
    log,
    tracer = noTracer,
    random = systemRandom,
    stale = () => false,
    names = {},
    metrics,
    components = () => [],
    runtimeConfig = {},
  }: PipelineOptions) {
    const next = () => random.next();
    const ranges = new ServiceRanges(facts, random);
    this.#catalog = new Catalog(
      ranges,
      [...facts.serviceCIDRs, ...facts.podCIDRs].some((cidr) => cidr.startsWith('127.')),
      enabledKinds(runtimeConfig),
    );
    this.#webhooks = new ConversionWebhooks((namespace, name, port) => webhookService(this.#machinery, namespace, name, port));
    const custom: CustomResources = new CustomResources(
      () => this.#cache,
      this.#webhooks,
      new Set(this.#catalog.resources.map(({ name }) => name)),
      () => this.#catalog.changed(),
      metrics?.rules,
    );
    this.#catalog.extend(custom);
    this.#lifecycle = new DefinitionLifecycle({
      handle: (request) => this.handle(request),
      definitions: () => this.#cache.resource(definitionsName),
      kindOf: (definition) => custom.anyKind(definition),
      clock,
      log,
    });
    this.#cache = new WatchCache({
      storage,
      resources: this.#catalog.resources,
      clock,
      log,
      onOther: (key, present) => ranges.learn(key, present),
      onReset: () => ranges.reset(),
      first: {
        prefix: definitionsPrefix,
        name: definitionsName,
        read: (items) => {
          custom.reset(items);
          this.#lifecycle.reset(items);
        },
      },
    });
    this.#cache.resource(definitionsName).onEvent = (event) => {
      custom.onEvent(event);
      this.#lifecycle.onEvent(event);
    };
    this.#catalog.connect((name) => this.#cache.resource(name));
    const networking = (resource: string) => this.#catalog.find('networking.k8s.io', 'v1', resource)?.store;
    ranges.connect(networking('ipaddresses'), networking('servicecidrs'));
    this.#tracer = tracer;
    this.#names = { authz: names.authz ?? [] };
    this.#access = metrics?.access;
    this.#machinery = {
      objects: new ObjectStore(storage, this.#cache, stale),
      reader: new Reader({ storage, cache: this.#cache, clock, random: next }),
      admission: new AdmissionChain(
        [...admission, rbacEscalation(() => this.#machinery)],
        [...admission.map((_, at) => names.admission?.[at] ?? `#${at}`), 'rbac-escalation'],
        (resource) => versionsOf(this.#catalog, resource),
        metrics && { metrics: metrics.admission, clock },
      ),
      authz,
      authn,
      facts,
      keys,
      clock,
      random,
      log,
      kind: (group, version, resource) => this.#kind(group, version, resource),
    };
    this.#dispatch = new Dispatch(this.#machinery, components);
    this.#compactor = new Compactor({ storage, clock, log, revision: () => this.#cache.revision });
  }

  /** Everything has been loaded, and changes are coming in. */
  get ready(): boolean {
    return this.#cache.ready;
  }
  /** Resolves when everything has been loaded once. */
  waitReady(): Promise<void> {
    return this.#cache.whenReady();
  }
  /** What routes, discovery and OpenAPI are made from. */
  served(): readonly Kind[] {
    return this.#catalog.served;
  }
  /** Of the newest commit that reads are sure to see. */
  get revision(): number {
    return this.#cache.revision;
  }

  /** How many objects there are of a resource; 0 of what is not stored. */
  count(group: string, version: string, resource: string): number {
    return this.#catalog.find(group, version, resource)?.cache.size ?? 0;
  }
  /** The watch cache's parts, one for each stored resource. */
  caches(): Iterable<ResourceCache> {
    return this.#cache.resources();
  }
  /** Where a port of a Service leads right now. */
  resolveService(namespace: string, name: string, port: number): Resolved {
    return resolveService(this.#machinery, namespace, name, port);
  }

  /** Loads what is stored; resolves when requests can be answered. */
  async start(signal?: AbortSignal): Promise<void> {
    await this.#cache.start(signal);
    this.#compactor.start();
    this.#lifecycle.start();
  }

  /** Ends all watches. */
  async stop(): Promise<void> {
    this.#compactor.stop();
    await this.#lifecycle.stop();
    this.#webhooks.close();
    await this.#cache.stop();
  }

  /** @throws StatusError for every refusal; a fault of the server is an `InternalError` with its `cause` */
  async handle(request: ApiRequest): Promise<PipelineResponse> {
    const call = new Call(request, this.#machinery.clock.now(), this.#tracer);
    try {
      await this.#authorize(call);
      const response = await this.#dispatch.serve(call);
      call.end(response.kind === 'object' ? response.code : 200);
      return response;
    } catch (error) {
      const refusal = this.#refusal(error, request);
      call.end(refusal.code, refusal);
      for (const warning of call.warnings) request.warn?.(warning);
      throw refusal;
    }
  }

  async #authorize(call: Call): Promise<void> {
    const { authz, clock } = this.#machinery;
    const attributes = attributesOf(call.request);
    const answer = authorize(authz, this.#names.authz, attributes, call, this.#access && { metrics: this.#access, clock });
    if (answer !== undefined) await answer;
    // WebSockets open with GET; what they open is no read
    if (call.request.verb === 'get' && interactive.has(call.request.subresource))
      await authorize(authz, this.#names.authz, { ...attributes, verb: 'create' }, call);
  }

  #kind(group: string, version: string, resource: string): ServedKind {
    const kind = this.#catalog.find(group, version, resource);
    if (kind === undefined) throw failure('NotFound', 'the server could not find the requested resource', {});
    return kind;
  }

  #refusal(error: unknown, { verb, resource, signal }: ApiRequest): StatusError {
    const fault = storageFault(error);
    if (fault instanceof StatusError) return fault;
    if (signal?.aborted === true)
      return new StatusError(
        { ...failure('Timeout', 'Timeout: request did not complete within the allotted timeout').status },
        { cause: error },
      );
    this.#machinery.log.error(
      { verb, resource: groupResource(resource), error: error instanceof Error ? (error.stack ?? error.message) : String(error) },
      'a request failed',
    );
    const message = error instanceof Error ? error.message : String(error);
    const { status } = failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });
    return new StatusError(status, { cause: error });
  }
}
