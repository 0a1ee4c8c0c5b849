import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { failure } from '@oarlock/api/status';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { AdmissionChain } from '../admission/admission-chain.ts';
import { ConversionWebhooks } from '../custom-resources/conversion/conversion-webhook.ts';
import { ExcludedAddresses } from '@oarlock/primitives/net/excluded-addresses';
import { resolveWebhookService } from '../custom-resources/conversion/service-resolver.ts';
import { CustomResources, definitionsName, definitionsPrefix } from '../custom-resources/custom-resources.ts';
import { DefinitionController } from '../custom-resources/definition/definition-controller.ts';
import { ObjectStore } from '../registry/object-store.ts';
import { systemRandom } from '../registry/random.ts';
import { Reader } from '../registry/reader.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { ServiceAllocator } from '../registry/strategies/service-allocator.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import { Compactor } from '../storage/compactor.ts';
import type { Item } from '../watch-cache/item.ts';
import type { WatchCacheEvent } from '../watch-cache/watch-cache-event.ts';
import { WatchCache } from '../watch-cache/watch-cache.ts';
import { Dispatcher } from './dispatcher.ts';
import { equivalentResources } from './equivalent-resources.ts';
import { kindsOfVersion } from './introduced-versions.ts';
import type { PipelineOptions } from './pipeline-options.ts';
import { rbacEscalationCheck } from './rbac-escalation.ts';
import { resourceClaimAuthorization } from './resource-claim-authorization.ts';
import { ResourceCatalog } from './resource-catalog.ts';
import { enabledKinds } from './runtime-config.ts';

const defaultCompactionIntervalMs = 5 * 60_000;

export interface PipelineComponents {
  readonly catalog: ResourceCatalog;
  readonly cache: WatchCache;
  readonly registry: RegistryDependencies;
  readonly compactor: Compactor;
  readonly definitionController: DefinitionController;
  readonly webhooks: ConversionWebhooks;
  readonly dispatcher: Dispatcher;
}

/** Creates the components of a pipeline and connects them. `handle` passes a request through the pipeline. */
export function newPipelineComponents(
  options: PipelineOptions,
  handle: (request: ApiRequest) => Promise<PipelineResponse>,
): PipelineComponents {
  const { storage, clock, log, clusterFacts: facts, compactionIntervalMs: intervalMs = defaultCompactionIntervalMs } = options;
  const allocator = new ServiceAllocator(facts, options.random ?? systemRandom);
  const features = new FeatureGates(facts);
  const [isEnabled, isOfVersion] = [enabledKinds(options.runtimeConfig ?? {}), kindsOfVersion(features.version)];
  const catalog = new ResourceCatalog(allocator, {
    features,
    allowLoopback: [...facts.serviceCIDRs, ...facts.podCIDRs].some((cidr) => cidr.startsWith('127.')),
    isEnabled: (kind) => isEnabled(kind) && isOfVersion(kind),
  });
  const cache = newWatchCache(options, { catalog, allocator, definitionListeners: () => [custom, definitionController] });
  const excluded = new ExcludedAddresses(options.neverProxied ?? []);
  const webhooks = new ConversionWebhooks((namespace, name, port) => resolveWebhookService(registry, { namespace, name, port }, excluded));
  const custom = new CustomResources({
    cache,
    webhooks,
    builtin: new Set(catalog.resources.map(({ name }) => name)),
    onChange: () => catalog.invalidate(),
    metrics: options.metrics?.rules,
  });
  const definitionController = new DefinitionController({
    handle,
    definitions: () => cache.resource(definitionsName),
    kindOf: (definition) => custom.servedKindOf(definition),
    clock,
    log,
  });
  connectCatalog(catalog, { cache, custom, allocator });
  const registry = newRegistry(options, catalog, cache);
  const dispatcher = new Dispatcher(registry, options.components ?? (() => []));
  const compactor = new Compactor({ storage, clock, log, revision: () => cache.revision, intervalMs });
  return { catalog, cache, registry, compactor, definitionController, webhooks, dispatcher };
}

/** Receives the events of the cached CustomResourceDefinitions. */
interface DefinitionListener {
  reset(items: readonly Item[]): void;
  onEvent(event: WatchCacheEvent): void;
}

interface CacheInput {
  readonly catalog: ResourceCatalog;
  readonly allocator: ServiceAllocator;
  definitionListeners(): readonly DefinitionListener[];
}

/** Creates the watch cache, which loads CustomResourceDefinitions before all other resources. */
function newWatchCache({ storage, clock, log }: PipelineOptions, { catalog, allocator, definitionListeners }: CacheInput): WatchCache {
  const cache = new WatchCache({
    storage,
    resources: catalog.resources,
    clock,
    log,
    onUnownedKey: (key, present) => allocator.setAllocated(key, present),
    onReset: () => allocator.reset(),
    loadFirst: {
      prefix: definitionsPrefix,
      name: definitionsName,
      read: (items) => {
        for (const listener of definitionListeners()) listener.reset(items);
      },
    },
  });
  cache.resource(definitionsName).onEvent = (event) => {
    for (const listener of definitionListeners()) listener.onEvent(event);
  };
  return cache;
}

interface CatalogConnections {
  readonly cache: WatchCache;
  readonly custom: CustomResources;
  readonly allocator: ServiceAllocator;
}

/** Connects the catalog to the watch cache and to custom resources, and the allocator to the IPAddresses and ServiceCIDRs in the cache. */
function connectCatalog(catalog: ResourceCatalog, { cache, custom, allocator }: CatalogConnections): void {
  catalog.addCustomResources(custom);
  catalog.setResourceCaches((name) => cache.resource(name));
  const storedKind = (resource: string) => catalog.find('networking.k8s.io', 'v1', resource)?.storedKind;
  allocator.setIndexes(storedKind('ipaddresses'), storedKind('servicecidrs'));
}

function newRegistry(options: PipelineOptions, catalog: ResourceCatalog, cache: WatchCache): RegistryDependencies {
  const { storage, clock, log, random = systemRandom } = options;
  const registry: RegistryDependencies = {
    objects: new ObjectStore({ storage, cache, isStale: options.isStale ?? (() => false), clock }),
    reader: new Reader({ storage, watchCache: cache, clock, random: () => random.next() }),
    admission: newAdmissionChain(options, catalog, () => registry),
    authz: options.authz,
    authn: options.authn ?? [],
    clusterFacts: options.clusterFacts,
    clusterKeys: options.clusterKeys,
    clock,
    random,
    log,
    servedKind(group, version, resource) {
      const kind = catalog.find(group, version, resource);
      if (kind === undefined) throw failure('NotFound', 'the server could not find the requested resource', {});
      return kind;
    },
  };
  return registry;
}

/** Creates the admission chain: the plugins in their order, followed by the checks of privilege escalation and of the use of devices. */
function newAdmissionChain(
  { admission, names, metrics, clock }: PipelineOptions,
  catalog: ResourceCatalog,
  registry: () => RegistryDependencies,
): AdmissionChain {
  return new AdmissionChain([...admission, rbacEscalationCheck(registry), resourceClaimAuthorization(registry)], {
    names: [...admission.map((_, at) => names?.admission?.[at] ?? `#${at}`), 'rbac-escalation', 'resource-claim-authorization'],
    versions: (resource) => equivalentResources(catalog, resource),
    timing: metrics && { metrics: metrics.admission, clock },
  });
}
