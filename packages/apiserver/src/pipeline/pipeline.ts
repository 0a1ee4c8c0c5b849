import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import { errorText } from '@oarlock/primitives/error-text';
import { errorName, stackWithoutMessage } from '../endpoints/request/confidential.ts';
import type { WatchCacheMemory } from '../watch-cache/watch-cache-options.ts';
import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { attributesOf, authorizeRequest, type AuthorizationTiming, type PluginNames } from '../authorization/authorization.ts';
import type { ConversionWebhooks } from '../custom-resources/conversion/conversion-webhook.ts';
import type { DefinitionController } from '../custom-resources/definition/definition-controller.ts';
import { resolveService, type ServiceResolution } from '../endpoints/handlers/subresources/proxy.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { RequestContext } from '../endpoints/request/request-context.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import type { Compactor } from '../storage/compactor.ts';
import { toStatusError } from '../storage/storage-error.ts';
import type { ResourceCache } from '../watch-cache/resource-cache.ts';
import type { WatchCache } from '../watch-cache/watch-cache.ts';
import type { Dispatcher } from './dispatcher.ts';
import { newPipelineComponents } from './pipeline-components.ts';
import type { PipelineOptions } from './pipeline-options.ts';
import type { ResourceCatalog } from './resource-catalog.ts';

const interactiveSubresources: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward']);

/**
 * Handles requests from HTTP, after they have been decoded, and loopback requests, in these steps:
 *
 * authorize -> dispatch -> decode -> mutating admission -> defaults, strategy, validation -> validating admission -> commit -> respond
 *
 * This class authorizes, dispatcher.ts dispatches, and each verb has a function in handlers/ that runs the other steps in the same order.
 */
export class Pipeline {
  readonly #catalog: ResourceCatalog;
  readonly #cache: WatchCache;
  readonly #registry: RegistryDependencies;
  readonly #tracer: Tracer;
  readonly #authorizerNames: PluginNames;
  readonly #authorizationTiming: AuthorizationTiming | undefined;
  readonly #compactor: Compactor;
  readonly #definitionController: DefinitionController;
  readonly #webhooks: ConversionWebhooks;
  readonly #dispatcher: Dispatcher;

  constructor(options: PipelineOptions) {
    const components = newPipelineComponents(options, async (request) => this.handle(request));
    this.#catalog = components.catalog;
    this.#cache = components.cache;
    this.#registry = components.registry;
    this.#compactor = components.compactor;
    this.#definitionController = components.definitionController;
    this.#webhooks = components.webhooks;
    this.#dispatcher = components.dispatcher;
    this.#tracer = options.tracer ?? noTracer;
    this.#authorizerNames = options.names?.authz ?? [];
    const access = options.metrics?.access;
    this.#authorizationTiming = access && { metrics: access, clock: this.#registry.clock };
  }

  /** True if the watch cache is loaded and its watch of storage is connected. */
  get ready(): boolean {
    return this.#cache.ready;
  }
  /** Resolves when the watch cache is loaded. */
  waitUntilReady(): Promise<void> {
    return this.#cache.whenReady();
  }
  /** Returns the served kinds, from which routes, discovery and OpenAPI are built. */
  servedKinds(): readonly Kind[] {
    return this.#catalog.served;
  }
  /** The newest revision whose changes reads from the cache include. */
  get revision(): number {
    return this.#cache.revision;
  }

  /** Returns the number of stored objects of a resource; 0 if the resource is not stored. */
  count(group: string, version: string, resource: string): number {
    return this.#catalog.find(group, version, resource)?.cache.size ?? 0;
  }
  /** Returns the caches of all stored resources. */
  resourceCaches(): Iterable<ResourceCache> {
    return this.#cache.resources();
  }
  /** The number of stored objects that no encryption key of this server decrypts. */
  get undecryptableValues(): number {
    let count = 0;
    for (const cache of this.#cache.resources()) count += cache.unreadable.undecryptableCount;
    return count;
  }
  /** Reads the stored objects again that could not be decrypted or decoded, after encryption keys were added. */
  rereadUnreadable(): Promise<void> {
    return this.#cache.rereadUnreadable();
  }
  /** The size and the limit of the buffers in the watch cache that clients can fill. */
  get watchCacheMemory(): WatchCacheMemory {
    return this.#cache.memory;
  }
  /** Resolves a port of a Service to the address of an endpoint. */
  resolveService(namespace: string, name: string, port: number): ServiceResolution {
    return resolveService(this.#registry, { namespace, name, port });
  }

  /** Loads the watch cache. Resolves when requests can be handled. */
  async start(signal?: AbortSignal): Promise<void> {
    await this.#cache.start(signal);
    this.#compactor.start();
    this.#definitionController.start();
  }

  /** Stops the watch cache and ends all watches. */
  async stop(): Promise<void> {
    this.#compactor.stop();
    await this.#definitionController.stop();
    this.#webhooks.close();
    await this.#cache.stop();
  }

  /**
   * Handles a request. Returns a promise only if a step has to wait.
   * @throws StatusError if the request is rejected; an unexpected error is thrown as `InternalError` with the error as `cause`
   */
  handle(request: ApiRequest): PipelineResponse | Promise<PipelineResponse> {
    const context = new RequestContext(request, this.#registry.clock.now(), this.#tracer);
    try {
      const response = continueWith(this.#authorize(context), () => this.#dispatcher.dispatch(context));
      if (!(response instanceof Promise)) return endContext(context, response);
      return response.then(
        (handled) => endContext(context, handled),
        (error: unknown) => this.#reject(context, error),
      );
    } catch (error) {
      return this.#reject(context, error);
    }
  }

  #reject(context: RequestContext, error: unknown): never {
    const rejection = this.#toStatusError(error, context);
    context.end(rejection.code, rejection);
    for (const warning of context.warnings) context.request.warn?.(warning);
    throw rejection;
  }

  #authorize(context: RequestContext): void | Promise<void> {
    const { authz } = this.#registry;
    const attributes = attributesOf(context.request);
    const authorized = authorizeRequest(authz, this.#authorizerNames, attributes, context, this.#authorizationTiming);
    const { verb, subresource } = context.request;
    if (verb !== 'get' || !interactiveSubresources.has(subresource)) return authorized;
    // WebSocket upgrades use GET, but interactive streams require create permission
    return continueWith(authorized, () => authorizeRequest(authz, this.#authorizerNames, { ...attributes, verb: 'create' }, context));
  }

  #toStatusError(error: unknown, { request: { verb, resource, signal }, isConfidential }: RequestContext): StatusError {
    const fault = toStatusError(error);
    if (fault instanceof StatusError) return fault;
    if (signal?.aborted === true)
      return new StatusError(
        { ...failure('Timeout', 'Timeout: request did not complete within the allotted timeout').status },
        { cause: error },
      );
    this.#registry.log.error(
      { verb, resource: groupResource(resource), error: isConfidential ? stackWithoutMessage(error) : stackOf(error) },
      'a request failed',
    );
    const message = isConfidential ? errorName(error) : errorText(error);
    const { status } = failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });
    return new StatusError(status, { cause: error });
  }
}

function endContext(context: RequestContext, response: PipelineResponse): PipelineResponse {
  context.end(response.kind === 'object' ? response.code : 200);
  return response;
}

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));
