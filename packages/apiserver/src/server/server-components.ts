import { pluginNameOf, type PluginContext } from '@oarlock/kernel/plugin';
import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { Kind } from '@oarlock/api/kinds';
import type { CertificateRequest } from '@oarlock/spi/cluster';
import type { StorageDriver } from '@oarlock/spi/storage';
import { AdmissionMetrics } from '../admission/admission-metrics.ts';
import { Aggregator } from '../aggregation/aggregator.ts';
import { frontProxyKeys } from '../aggregation/request-header.ts';
import { AuditMetrics } from '../audit/audit-metrics.ts';
import { Auditor } from '../audit/auditor.ts';
import { AuthMetrics } from '../authorization/access-metrics.ts';
import { RuleMetrics } from '../custom-resources/cel/rule-metrics.ts';
import { DiscoveryEndpoints } from '../endpoints/discovery/discovery-endpoints.ts';
import { flowControlDumps } from '../flowcontrol/debug-dumps.ts';
import { registerFlowControlMetrics } from '../flowcontrol/flowcontrol-metrics.ts';
import { PriorityAndFairness } from '../flowcontrol/priority-and-fairness.ts';
import { HealthEndpoints, type HealthCheck } from '../handler-chain/health-endpoints.ts';
import { HttpHandler } from '../handler-chain/http-handler.ts';
import { InFlightCounter } from '../handler-chain/in-flight-counter.ts';
import { withPathAccess } from '../handler-chain/path-access.ts';
import { PathEndpoints } from '../handler-chain/path-endpoints.ts';
import { zPagePaths, ZPages } from '../handler-chain/zpages.ts';
import { PostStartHooks } from '../handler-chain/post-start-hooks.ts';
import { RequestMetrics } from '../http/request-metrics.ts';
import { healthCheckObserver } from '../handler-chain/health-check-metrics.ts';
import { registerObjectCountMetrics } from '../metrics/object-count-metrics.ts';
import { registerWorkerMetrics } from '../metrics/worker-metrics.ts';
import { servingCertificateRequest } from '../http/serving-certificate.ts';
import { OpenApiEndpoints } from '../endpoints/openapi/openapi-endpoints.ts';
import { Pipeline } from '../pipeline/pipeline.ts';
import { kubeletClientRequest } from '../proxy/kubelet-client-request.ts';
import { KubeletProxy } from '../proxy/kubelet-proxy.ts';
import { ProxyAddresses, type Listener } from '../proxy/proxy-addresses.ts';
import { ProxyClientCertificate } from '../proxy/proxy-client-certificate.ts';
import { ProxyEndpoints } from '../proxy/proxy-endpoints.ts';
import { ReverseProxy } from '../proxy/reverse-proxy.ts';
import { canEncryptByDefault } from '../storage/encryption/encryption-config.ts';
import { EncryptedStorage } from '../storage/encryption/encrypted-storage.ts';
import { withMetrics } from '../storage/metered-storage.ts';
import { registerWatchCacheMetrics } from '../watch-cache/watch-cache-metrics.ts';
import { flagsOf } from './flags.ts';
import { controlPlaneComponents } from './health-checks.ts';
import type { ApiServerDependencies } from './server-options.ts';

/** The maximum time in a queue of API Priority and Fairness, as a share of the request timeout. */
const queueWaitShare = 0.25;

/** The state of the server that components read. It changes when the server starts and stops. */
export interface ServerState {
  /** Returns the addresses on which the server listens; empty before it listens. */
  listeners(): readonly Listener[];
  /** Returns the `host:port` at which clients reach the server. @throws Error before the server listens */
  endpoint(): string;
  healthChecks(): readonly HealthCheck[];
}

export interface ServerComponents {
  readonly encryptedStorage: EncryptedStorage | undefined;
  readonly pipeline: Pipeline;
  readonly addresses: ProxyAddresses;
  readonly aggregator: Aggregator;
  readonly auditor: Auditor | undefined;
  readonly fairness: PriorityAndFairness;
  readonly postStartHooks: PostStartHooks;
  readonly paths: PathEndpoints;
  readonly handler: HttpHandler;
  /** The request of the serving certificate. */
  readonly certificateRequest: CertificateRequest;
}

interface Builder {
  readonly dependencies: ApiServerDependencies;
  readonly context: PluginContext;
  readonly state: ServerState;
  readonly access: AuthMetrics;
}

/** Creates the components of a server, from storage to HTTP. The components do nothing until the server starts. */
export function newServerComponents(dependencies: ApiServerDependencies, context: PluginContext, state: ServerState): ServerComponents {
  const { config, storage, audit, cluster, keys } = dependencies;
  const { clock, log, metrics, signal } = context;
  const builder: Builder = { dependencies, context, state, access: new AuthMetrics(metrics) };
  const encryptedStorage = config.encryption || canEncryptByDefault(storage) ? new EncryptedStorage(storage, log) : undefined;
  const pipeline = newPipeline(builder, withMetrics(encryptedStorage ?? storage, metrics, clock), encryptedStorage);
  const excluded = [cluster.kubernetesServiceIP, ...(config.neverProxied ?? [])];
  const addresses = new ProxyAddresses({ listeners: () => state.listeners(), excluded });
  const proxy = new ReverseProxy(signal, addresses);
  const frontProxy = new ProxyClientCertificate({ issue: () => frontProxyKeys(keys).clientCertificate(), clock });
  const sendsUid = new FeatureGates(cluster).enabled('RemoteRequestHeaderUID');
  const aggregator = new Aggregator({ pipeline, proxy, frontProxy, clock, log, registry: metrics, sendsUid });
  const auditor = audit.length === 0 ? undefined : new Auditor(audit, { clock, log, metrics: new AuditMetrics(metrics) });
  const fairness = newPriorityAndFairness(builder);
  const paths = newPathEndpoints(builder, { pipeline, aggregator, fairness });
  const handler = newHttpHandler(builder, { pipeline, aggregator, auditor, fairness, paths, proxy, addresses });
  registerServerMetrics(context, pipeline);
  if (dependencies.workers) registerWorkerMetrics(context.metrics, dependencies.workers);
  const names = [config.advertiseAddress, config.listen.address, ...config.certSANs];
  return {
    encryptedStorage,
    pipeline,
    addresses,
    aggregator,
    auditor,
    fairness,
    postStartHooks: new PostStartHooks(
      () => pipeline.servedKinds(),
      dependencies.authz.flatMap(({ postStartHook }) => postStartHook?.name ?? []),
    ),
    paths,
    handler,
    certificateRequest: servingCertificateRequest(cluster, names),
  };
}

function newPipeline(builder: Builder, storage: StorageDriver, encryptedStorage: EncryptedStorage | undefined): Pipeline {
  const { dependencies, context, access } = builder;
  const { authn, authz, admission, process } = dependencies;
  const { compactionIntervalSeconds, neverProxied } = dependencies.config;
  const { clock, log, metrics, tracer } = context;
  return new Pipeline({
    metrics: { access, admission: new AdmissionMetrics(metrics), rules: new RuleMetrics(metrics, clock) },
    names: { authz: authz.map(pluginNameOf), admission: admission.map(pluginNameOf) },
    storage,
    isStale: (value) => encryptedStorage?.isStale(value) ?? false,
    authn,
    authz,
    admission,
    clusterFacts: dependencies.cluster,
    clusterKeys: dependencies.keys,
    clock,
    log,
    tracer,
    components: () => controlPlaneComponents({ storage: dependencies.storage, process }),
    runtimeConfig: dependencies.config.runtimeConfig,
    ...(neverProxied !== undefined && { neverProxied }),
    ...(compactionIntervalSeconds !== undefined && { compactionIntervalMs: compactionIntervalSeconds * 1000 }),
  });
}

function newPriorityAndFairness({ dependencies: { config }, context: { clock, metrics } }: Builder): PriorityAndFairness {
  const fairness = new PriorityAndFairness(
    config.maxRequestsInflight + config.maxMutatingRequestsInflight,
    config.requestTimeoutSeconds * 1000 * queueWaitShare,
    clock,
  );
  registerFlowControlMetrics(metrics, fairness);
  return fairness;
}

/** Creates the handlers of non-resource paths: discovery, OpenAPI, health, metrics, and the paths of plugins. */
function newPathEndpoints(
  { dependencies, context, state }: Builder,
  { pipeline, aggregator, fairness }: Pick<ServerComponents, 'pipeline' | 'aggregator' | 'fairness'>,
): PathEndpoints {
  const { cluster, config, paths, process, workers } = dependencies;
  const { clock, log, metrics } = context;
  const features = new FeatureGates(cluster);
  const served = (): readonly Kind[] => pipeline.servedKinds();
  const remote = () => aggregator.groups;
  return new PathEndpoints({
    discovery: new DiscoveryEndpoints({
      served,
      serverAddress: () => state.endpoint(),
      remote,
      storageVersionHash: features.enabled('StorageVersionHash'),
    }),
    openApi: new OpenApiEndpoints({ served, version: cluster.version, remote, others: () => aggregator.documents() }),
    health: new HealthEndpoints({
      checks: () => state.healthChecks(),
      clock,
      onFailure: (name, because) => {
        log.warn({ check: name, because }, 'a health check failed');
      },
      observe: healthCheckObserver(metrics),
    }),
    handlers: paths,
    version: cluster.version,
    emulationVersion: features.version,
    registries: () => [metrics, ...(process?.registries() ?? [])],
    ...(workers && { otherMetrics: () => workers.otherMetrics() }),
    pages: flowControlDumps(fairness, clock),
    zPages: new ZPages(
      {
        component: 'kube-apiserver',
        startedAt: clock.now(),
        version: cluster.version,
        emulationVersion: features.version,
        flags: flagsOf(config, cluster),
        paths: zPagePaths(features),
      },
      clock,
    ),
  });
}

interface HandlerComponents extends Pick<ServerComponents, 'pipeline' | 'aggregator' | 'auditor' | 'fairness' | 'paths'> {
  readonly proxy: ReverseProxy;
  readonly addresses: ProxyAddresses;
}

function newHttpHandler({ dependencies, context, access }: Builder, components: HandlerComponents): HttpHandler {
  const { config, paths: pathHandlers, cluster, keys, localNodes: local } = dependencies;
  const { authn, authz } = withPathAccess(dependencies, pathHandlers);
  const { clock, log, metrics, signal } = context;
  const { proxy, addresses, ...rest } = components;
  const inFlight = new InFlightCounter();
  const verify = config.verifyKubelets;
  const clientCertificate = new ProxyClientCertificate({
    issue: () => keys.issue(kubeletClientRequest),
    caBundle: keys.caBundle,
    verify,
    clock,
  });
  return new HttpHandler({
    ...rest,
    authn,
    authz,
    authorizerNames: dependencies.authz.map(pluginNameOf),
    inFlight,
    clock,
    log,
    kubeletProxy: new KubeletProxy(clientCertificate, signal, { addresses, local }),
    proxyEndpoints: new ProxyEndpoints(proxy, clientCertificate),
    requestTimeoutMs: config.requestTimeoutSeconds * 1000,
    access,
    compresses: new FeatureGates(cluster).enabled('APIResponseCompression'),
    metrics: new RequestMetrics(metrics, { mutating: () => inFlight.mutating, readOnly: () => inFlight.readOnly }, cluster.version),
  });
}

function registerServerMetrics({ metrics }: PluginContext, pipeline: Pipeline): void {
  registerWatchCacheMetrics(metrics, pipeline);
  registerObjectCountMetrics(
    metrics,
    () => pipeline.servedKinds(),
    (group, version, resource) => pipeline.count(group, version, resource),
  );
}
