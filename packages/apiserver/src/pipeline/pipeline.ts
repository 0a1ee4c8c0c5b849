import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { AuthMetrics } from '../authorization/access-metrics.ts';
import { AdmissionChain } from '../admission/admission-chain.ts';
import type { AdmissionMetrics } from '../admission/admission-metrics.ts';
import type { RuleMetrics } from '../custom-resources/cel/rule-metrics.ts';
import { attributesOf, authorizeRequest, type PluginNames } from '../authorization/authorization.ts';
import { RequestContext } from '../request/request-context.ts';
import { ResourceCatalog } from './resource-catalog.ts';
import { Compactor } from '../storage/compactor.ts';
import { Dispatcher } from './dispatcher.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { ObjectStore } from '../registry/object-store.ts';
import { systemRandom, type RandomSource } from '../registry/random.ts';
import { rbacEscalationCheck } from './rbac-escalation.ts';
import { Reader } from '../registry/reader.ts';
import { ConversionWebhooks } from '../custom-resources/conversion/conversion-webhook.ts';
import { CustomResources, definitionsName, definitionsPrefix } from '../custom-resources/custom-resources.ts';
import { DefinitionController } from '../custom-resources/definition/definition-controller.ts';
import { resolveWebhookService } from '../custom-resources/conversion/service-resolver.ts';
import type { PipelineResponse } from '../request/response.ts';
import type { ServedKind } from '../registry/served-kind.ts';
import { ServiceAllocator } from '../registry/strategies/service-allocator.ts';
import { toStatusError } from '../storage/storage-error.ts';
import { enabledKinds, type RuntimeConfig } from './runtime-config.ts';
import type { Component } from '../handlers/subresources/component-statuses.ts';
import { resolveService, type Resolved } from '../handlers/subresources/proxy.ts';
import type { ResourceCache } from '../watch-cache/resource-cache.ts';
import { WatchCache } from '../watch-cache/watch-cache.ts';
import { equivalentResources } from './equivalent-resources.ts';

export interface PipelineOptions {
  readonly storage: StorageDriver;
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  /** The authenticators that TokenReviews use. */
  readonly authn?: readonly Authenticator[];
  readonly clusterFacts: ClusterFacts;
  readonly clusterKeys: ClusterKeys;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer?: Tracer;
  readonly random?: RandomSource;
  /** Returns true for stored values that must be rewritten although their content is unchanged, such as after a key rotation. */
  readonly isStale?: (value: Uint8Array) => boolean;
  /** The components that componentstatuses reports. */
  readonly components?: () => readonly Component[];
  /** Versions to serve in addition to the default ones, or not to serve. */
  readonly runtimeConfig?: RuntimeConfig;
  /** Names of the plugins for spans, in the order of the chains. */
  readonly names?: { readonly authz?: PluginNames; readonly admission?: PluginNames };
  /** Metrics of authorization, admission and validation rules. */
  readonly metrics?: PipelineMetrics;
}

export interface PipelineMetrics {
  readonly access: AuthMetrics;
  readonly admission: AdmissionMetrics;
  readonly rules: RuleMetrics;
}

const interactiveSubresources: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward']);

/**
 * Runs requests after HTTP has decoded them, and loopback requests. The steps, in order:
 *
 *   authorize -> dispatch -> decode -> mutating admission -> defaults, strategy, validation -> validating admission -> commit -> respond
 *
 * Authorization is here, dispatch in dispatcher.ts, the verbs in handlers/, one function per verb in the same order.
 */
export class Pipeline {
  readonly #catalog: ResourceCatalog;
  readonly #cache: WatchCache;
  readonly #registry: RegistryDependencies;
  readonly #tracer: Tracer;
  readonly #names: { readonly authz: PluginNames };
  readonly #access: AuthMetrics | undefined;
  readonly #compactor: Compactor;
  readonly #definitionController: DefinitionController;
  readonly #webhooks: ConversionWebhooks;
  readonly #dispatcher: Dispatcher;

  constructor({
    storage,
    authz,
    admission,
    authn = [],
    clusterFacts: facts,
    clusterKeys: keys,
    clock,
    log,
    tracer = noTracer,
    random = systemRandom,
    isStale: stale = () => false,
    names = {},
    metrics,
    components = () => [],
    runtimeConfig = {},
  }: PipelineOptions) {
    const next = () => random.next();
    const ranges = new ServiceAllocator(facts, random);
    this.#catalog = new ResourceCatalog(
      ranges,
      [...facts.serviceCIDRs, ...facts.podCIDRs].some((cidr) => cidr.startsWith('127.')),
      enabledKinds(runtimeConfig),
    );
    this.#webhooks = new ConversionWebhooks((namespace, name, port) => resolveWebhookService(this.#registry, namespace, name, port));
    const custom: CustomResources = new CustomResources(
      () => this.#cache,
      this.#webhooks,
      new Set(this.#catalog.resources.map(({ name }) => name)),
      () => this.#catalog.invalidate(),
      metrics?.rules,
    );
    this.#catalog.addCustomResources(custom);
    this.#definitionController = new DefinitionController({
      handle: (request) => this.handle(request),
      definitions: () => this.#cache.resource(definitionsName),
      kindOf: (definition) => custom.servedKindOf(definition),
      clock,
      log,
    });
    this.#cache = new WatchCache({
      storage,
      resources: this.#catalog.resources,
      clock,
      log,
      onUnownedKey: (key, present) => ranges.setAllocated(key, present),
      onReset: () => ranges.reset(),
      loadFirst: {
        prefix: definitionsPrefix,
        name: definitionsName,
        read: (items) => {
          custom.reset(items);
          this.#definitionController.reset(items);
        },
      },
    });
    this.#cache.resource(definitionsName).onEvent = (event) => {
      custom.onEvent(event);
      this.#definitionController.onEvent(event);
    };
    this.#catalog.setResourceCaches((name) => this.#cache.resource(name));
    const networking = (resource: string) => this.#catalog.find('networking.k8s.io', 'v1', resource)?.storedKind;
    ranges.setIndexes(networking('ipaddresses'), networking('servicecidrs'));
    this.#tracer = tracer;
    this.#names = { authz: names.authz ?? [] };
    this.#access = metrics?.access;
    this.#registry = {
      objects: new ObjectStore(storage, this.#cache, stale),
      reader: new Reader({ storage, watchCache: this.#cache, clock, random: next }),
      admission: new AdmissionChain(
        [...admission, rbacEscalationCheck(() => this.#registry)],
        [...admission.map((_, at) => names.admission?.[at] ?? `#${at}`), 'rbac-escalation'],
        (resource) => equivalentResources(this.#catalog, resource),
        metrics && { metrics: metrics.admission, clock },
      ),
      authz,
      authn,
      clusterFacts: facts,
      clusterKeys: keys,
      clock,
      random,
      log,
      servedKind: (group, version, resource) => this.#servedKind(group, version, resource),
    };
    this.#dispatcher = new Dispatcher(this.#registry, components);
    this.#compactor = new Compactor({ storage, clock, log, revision: () => this.#cache.revision });
  }

  /** True if the cache is loaded and its watch of storage is connected. */
  get ready(): boolean {
    return this.#cache.ready;
  }
  /** Resolves when the cache is loaded. */
  waitUntilReady(): Promise<void> {
    return this.#cache.whenReady();
  }
  /** Returns the kinds that routes, discovery and OpenAPI are built from. */
  servedKinds(): readonly Kind[] {
    return this.#catalog.served;
  }
  /** The newest revision that reads from the cache include. */
  get revision(): number {
    return this.#cache.revision;
  }

  /** Returns the number of stored objects of a resource; 0 for resources that are not stored. */
  count(group: string, version: string, resource: string): number {
    return this.#catalog.find(group, version, resource)?.cache.size ?? 0;
  }
  /** Returns the cache of each stored resource. */
  resourceCaches(): Iterable<ResourceCache> {
    return this.#cache.resources();
  }
  /** Resolves a port of a Service to an address. */
  resolveService(namespace: string, name: string, port: number): Resolved {
    return resolveService(this.#registry, namespace, name, port);
  }

  /** Loads the cache; resolves when requests can be served. */
  async start(signal?: AbortSignal): Promise<void> {
    await this.#cache.start(signal);
    this.#compactor.start();
    this.#definitionController.start();
  }

  /** Stops the cache and ends all watches. */
  async stop(): Promise<void> {
    this.#compactor.stop();
    await this.#definitionController.stop();
    this.#webhooks.close();
    await this.#cache.stop();
  }

  /** @throws StatusError for every rejection; an unexpected error becomes an `InternalError` with its `cause` */
  async handle(request: ApiRequest): Promise<PipelineResponse> {
    const call = new RequestContext(request, this.#registry.clock.now(), this.#tracer);
    try {
      await this.#authorize(call);
      const response = await this.#dispatcher.dispatch(call);
      call.end(response.kind === 'object' ? response.code : 200);
      return response;
    } catch (error) {
      const rejection = this.#toStatusError(error, request);
      call.end(rejection.code, rejection);
      for (const warning of call.warnings) request.warn?.(warning);
      throw rejection;
    }
  }

  async #authorize(context: RequestContext): Promise<void> {
    const { authz, clock } = this.#registry;
    const attributes = attributesOf(context.request);
    const answer = authorizeRequest(authz, this.#names.authz, attributes, context, this.#access && { metrics: this.#access, clock });
    if (answer !== undefined) await answer;
    // WebSocket upgrades use GET, but interactive streams require create permission
    if (context.request.verb === 'get' && interactiveSubresources.has(context.request.subresource))
      await authorizeRequest(authz, this.#names.authz, { ...attributes, verb: 'create' }, context);
  }

  #servedKind(group: string, version: string, resource: string): ServedKind {
    const kind = this.#catalog.find(group, version, resource);
    if (kind === undefined) throw failure('NotFound', 'the server could not find the requested resource', {});
    return kind;
  }

  #toStatusError(error: unknown, { verb, resource, signal }: ApiRequest): StatusError {
    const fault = toStatusError(error);
    if (fault instanceof StatusError) return fault;
    if (signal?.aborted === true)
      return new StatusError(
        { ...failure('Timeout', 'Timeout: request did not complete within the allotted timeout').status },
        { cause: error },
      );
    this.#registry.log.error(
      { verb, resource: groupResource(resource), error: error instanceof Error ? (error.stack ?? error.message) : String(error) },
      'a request failed',
    );
    const message = error instanceof Error ? error.message : String(error);
    const { status } = failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });
    return new StatusError(status, { cause: error });
  }
}
