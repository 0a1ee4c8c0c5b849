import { isIP, type AddressInfo } from 'node:net';
import { pluginNameOf } from '@oarlock/kernel/plugin';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { AuditSink } from '@oarlock/spi/audit';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { LoopbackEndpoint } from '@oarlock/spi/loopback';
import type { PathHandler } from '@oarlock/spi/paths';
import type { ProcessView } from '@oarlock/spi/process';
import type { Health, Role } from '@oarlock/spi/role';
import type { StorageDriver } from '@oarlock/spi/storage';
import { collectDefaultMetrics } from 'prom-client';
import { loopbackHandler } from './pipeline/loopback-handler.ts';
import { loadAuditPolicy } from './audit/audit-policy.ts';
import { defaultAuditPolicy } from './audit/default-audit-policy.ts';
import { Auditor } from './audit/auditor.ts';
import { BootstrapController } from './controllers/bootstrap-controller.ts';
import { DiscoveryEndpoints } from './discovery/discovery-endpoints.ts';
import { HealthEndpoints, ping, type HealthCheck } from './handler-chain/health-endpoints.ts';
import { HttpHandler } from './handler-chain/http-handler.ts';
import { FlowControlConfigurationController } from './flowcontrol/configuration-controller.ts';
import { registerFlowControlMetrics } from './flowcontrol/flowcontrol-metrics.ts';
import { flowControlDumps } from './flowcontrol/debug-dumps.ts';
import { PriorityAndFairness } from './flowcontrol/priority-and-fairness.ts';
import { InFlightCounter } from './handler-chain/in-flight-requests.ts';
import { loopbackPathHandler, PathEndpoints } from './handler-chain/path-endpoints.ts';
import { HttpServer } from './http/server.ts';
import { withMetrics } from './storage/metered-storage.ts';
import { healthCheckObserver, registerObjectCountMetrics, RequestMetrics } from './http/request-metrics.ts';
import { AuthMetrics } from './authorization/access-metrics.ts';
import { AdmissionMetrics } from './admission/admission-metrics.ts';
import { RuleMetrics } from './custom-resources/cel/rule-metrics.ts';
import { registerFeatureMetrics } from './metrics/feature-metrics.ts';
import { registerWatchCacheMetrics } from './watch-cache/watch-cache-metrics.ts';
import { OpenApiEndpoints } from './openapi/openapi-endpoints.ts';
import { Pipeline } from './pipeline/pipeline.ts';
import { PostStartHooks, type PostStartHookName } from './handler-chain/post-start-hooks.ts';
import { EncryptedStorage } from './storage/encryption/encrypted-storage.ts';
import {
  canEncryptByDefault,
  loadDefaultEncryption,
  loadEncryption,
  type EncryptionConfig,
} from './storage/encryption/encryption-config.ts';
import { ServiceCidrController } from './controllers/service-cidr-controller.ts';
import type { RuntimeConfig } from './pipeline/runtime-config.ts';
import type { Component } from './handlers/subresources/component-statuses.ts';
import { ServingCertificate, servingCertificateRequest } from './http/serving-certificate.ts';
import { Aggregator } from './aggregation/aggregator.ts';
import { ApiServiceController } from './aggregation/api-service-controller.ts';
import { frontProxyClientRequest } from './aggregation/request-header.ts';
import { ProxyClientCertificate, type ServingCertificateVerification } from './proxy/proxy-client-certificate.ts';
import { ProxyAddresses, type Listener } from './proxy/proxy-addresses.ts';
import { ProxyEndpoints } from './proxy/proxy-endpoints.ts';
import { withAggregatedKinds } from './aggregation/remote-kinds.ts';
import { ReverseProxy } from './proxy/reverse-proxy.ts';
import { kubeletClientRequest } from './proxy/kubelet-client-request.ts';
import { KubeletProxy } from './proxy/kubelet-proxy.ts';

export interface ApiServerConfig {
  readonly listen: { readonly address: string; readonly port: number };
  readonly advertiseAddress?: string | undefined;
  readonly certSANs: readonly string[];
  readonly requestTimeoutSeconds: number;
  readonly maxRequestsInflight: number;
  readonly maxMutatingRequestsInflight: number;
  readonly maxStreamsPerConnection: number;
  readonly drainSeconds: number;
  readonly encryption?: EncryptionConfig | undefined;
  readonly auditPolicy?: string | undefined;
  readonly defaultAuditPolicy?: boolean;
  readonly runtimeConfig: RuntimeConfig;
  readonly verifyKubelets: ServingCertificateVerification;
}

export interface ApiServerDependencies {
  readonly config: ApiServerConfig;
  readonly storage: StorageDriver;
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  readonly audit: readonly AuditSink[];
  readonly loopback: LoopbackEndpoint;
  readonly cluster: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly paths: readonly PathHandler[];
  readonly process: ProcessView | undefined;
  readonly localNodes?: LocalNodes | undefined;
}

const isLoopback = (address: string) => address.startsWith('127.') || address === '::1';
/** Of the time that a request has, it may wait this part for a place. */
const queueWaitShare = 0.25;
const storageKey = '/oarlock/health';
const healthy: Health = { healthy: true };
const unhealthy = (because: string): Health => ({ healthy: false, reason: because });

interface Controller {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The pipeline with HTTP in front of it, as one role of the process. */
export class ApiServer implements Role {
  readonly name = 'apiserver';
  readonly #dependencies: ApiServerDependencies;
  readonly #context: PluginContext;
  readonly #pipeline: Pipeline;
  readonly #handler: HttpHandler;
  readonly #paths: PathEndpoints;
  readonly #certificate: ServingCertificate;
  readonly #ready: Promise<void>;
  #readySettlers: { resolve(): void; reject(reason: unknown): void } = { resolve() {}, reject() {} };
  #server: HttpServer | undefined;
  #bootstrap: BootstrapController | undefined;
  #bound: AddressInfo | undefined;
  #controllers: readonly Controller[] = [];
  readonly #aggregator: Aggregator;
  readonly #auditor: Auditor | undefined;
  readonly #fairness: PriorityAndFairness;
  readonly #storage: StorageDriver;
  readonly #encrypted: EncryptedStorage | undefined;
  readonly #postStartHooks: PostStartHooks;
  #phase: 'starting' | 'running' | 'stopping' = 'starting';

  constructor(parts: ApiServerDependencies, context: PluginContext) {
    this.#dependencies = parts;
    this.#context = context;
    const { config, storage, authn, authz, admission, audit, cluster, keys, paths, process, localNodes: local } = parts;
    const { clock, log, metrics, tracer, signal } = context;
    this.#ready = new Promise((resolve, reject) => {
      this.#readySettlers = { resolve, reject };
    });
    this.#ready.catch(() => undefined); // told to whoever asks
    this.#encrypted = config.encryption || canEncryptByDefault(storage) ? new EncryptedStorage(storage, log) : undefined;
    this.#storage = withMetrics(this.#encrypted ?? storage, metrics, clock);
    const access = new AuthMetrics(metrics);
    this.#pipeline = new Pipeline({
      metrics: { access, admission: new AdmissionMetrics(metrics), rules: new RuleMetrics(metrics, clock) },
      names: { authz: authz.map(pluginNameOf), admission: admission.map(pluginNameOf) },
      storage: this.#storage,
      isStale: (value) => this.#encrypted?.isStale(value) ?? false,
      authn,
      authz,
      admission,
      clusterFacts: cluster,
      clusterKeys: keys,
      clock,
      log,
      tracer,
      components: () => this.#components(),
      runtimeConfig: config.runtimeConfig,
    });
    const served = () => this.#pipeline.servedKinds();
    this.#postStartHooks = new PostStartHooks(served);
    const addresses = new ProxyAddresses({ listeners: () => this.#listeners(), services: [cluster.kubernetesServiceIP] });
    const proxy = new ReverseProxy(signal, addresses);
    this.#aggregator = new Aggregator({
      pipeline: this.#pipeline,
      proxy,
      frontProxy: new ProxyClientCertificate(keys, frontProxyClientRequest, clock),
      clock,
      log,
    });
    const remote = () => this.#aggregator.groups;
    this.#auditor = audit.length === 0 ? undefined : new Auditor(audit, clock, log);
    const inFlight = new InFlightCounter();
    this.#fairness = new PriorityAndFairness(
      config.maxRequestsInflight + config.maxMutatingRequestsInflight,
      config.requestTimeoutSeconds * 1000 * queueWaitShare,
      clock,
    );
    registerFlowControlMetrics(metrics, this.#fairness);
    this.#paths = new PathEndpoints({
      discovery: new DiscoveryEndpoints(served, () => `${this.#advertisedAddress}:${this.address.port}`, remote),
      openApi: new OpenApiEndpoints(served, cluster.version, remote, () => this.#aggregator.documents()),
      health: new HealthEndpoints(
        () => this.#checks(),
        clock,
        (name, because) => {
          log.warn({ check: name, because }, 'a health check failed');
        },
        healthCheckObserver(metrics),
      ),
      handlers: paths,
      version: cluster.version,
      registries: () => [metrics, ...(process?.registries() ?? [])],
      pages: flowControlDumps(this.#fairness, clock),
    });
    this.#handler = new HttpHandler({
      pipeline: this.#pipeline,
      authn,
      authz,
      auditor: this.#auditor,
      paths: this.#paths,
      fairness: this.#fairness,
      inFlight,
      clock,
      log,
      kubeletProxy: new KubeletProxy(keys, signal, { addresses, verify: config.verifyKubelets, local }),
      aggregator: this.#aggregator,
      proxyEndpoints: new ProxyEndpoints(
        proxy,
        new ProxyClientCertificate(keys, kubeletClientRequest, clock, { verify: config.verifyKubelets }),
      ),
      requestTimeoutMs: config.requestTimeoutSeconds * 1000,
      access,
      metrics: new RequestMetrics(metrics, { mutating: () => inFlight.mutating, readOnly: () => inFlight.readOnly }, cluster.version),
    });
    registerWatchCacheMetrics(metrics, () => this.#pipeline.resourceCaches());
    registerFeatureMetrics(metrics);
    registerObjectCountMetrics(metrics, served, (group, version, resource) => this.#pipeline.count(group, version, resource));
    this.#certificate = new ServingCertificate(
      keys,
      servingCertificateRequest(cluster, [config.advertiseAddress, config.listen.address, ...config.certSANs]),
      clock,
    );
  }

  /** Where it listens. @throws Error before it does */
  get address(): { readonly host: string; readonly port: number } {
    if (this.#bound === undefined) throw new Error('the API server does not listen yet');
    return { host: this.#bound.address, port: this.#bound.port };
  }

  /** None before the server listens: it serves no request then. */
  #listeners(): readonly Listener[] {
    if (this.#bound === undefined) return [];
    const { address, port } = this.#bound;
    return [address, this.#advertisedAddress].map((host) => ({ host, port }));
  }

  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.#start(signal);
      this.#readySettlers.resolve();
    } catch (error) {
      this.#readySettlers.reject(error);
      throw error;
    }
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { config, keys, loopback, cluster, storage, authz } = this.#dependencies;
    const { clock, log, metrics, dataDir } = this.#context;
    collectDefaultMetrics({ register: metrics });
    await this.#loadEncryption(join(dataDir, 'encryption'));
    if (config.defaultAuditPolicy === true) this.#auditor?.setPolicy(defaultAuditPolicy);
    if (config.auditPolicy !== undefined) this.#auditor?.setPolicy(await loadAuditPolicy(config.auditPolicy));
    const issued = this.#certificate.start(
      (renewed) => {
        this.#server?.setCertificate(renewed);
      },
      (error) => {
        log.error({ err: error }, 'the serving certificate could not be renewed');
      },
    );
    const [pair] = await Promise.all([issued, this.#pipeline.start(signal)]);
    this.#server = new HttpServer({
      pair,
      caBundle: keys.caBundle,
      maxStreamsPerConnection: config.maxStreamsPerConnection,
      clock,
      log,
      handle: (exchange, upgrade) => this.#handler.handle(exchange, upgrade),
    });
    this.#bound = await this.#server.listen(config.listen.address, config.listen.port);
    const [pipeline, paths] = [
      withAggregatedKinds(this.#pipeline, this.#aggregator, authz),
      loopbackPathHandler(this.#paths, authz, this.#aggregator),
    ];
    const auditor = this.#auditor;
    loopback.connect(
      auditor
        ? loopbackHandler(auditor.auditPipeline(pipeline), auditor.auditPaths(paths), clock)
        : loopbackHandler(pipeline, paths, clock),
    );
    this.#bootstrap = new BootstrapController({
      pipeline: this.#pipeline,
      storage,
      facts: cluster,
      address: this.#advertisedAddress,
      port: this.#bound.port,
      clock,
      log,
    });
    await this.#postStartHooks.run('bootstrap', this.#bootstrap.start(signal));
    await this.#startControllers();
    this.#phase = 'running';
    log.info({ address: this.#bound.address, port: this.#bound.port }, 'the API server listens');
  }

  async #loadEncryption(directory: string): Promise<void> {
    const { config, storage } = this.#dependencies;
    if (this.#encrypted === undefined) return;
    if (config.encryption) return this.#encrypted.setRules(await loadEncryption(config.encryption, directory));
    const rules = await loadDefaultEncryption(storage, directory);
    this.#encrypted.setRules(rules);
    if (rules.length === 0)
      this.#context.log.warn(
        {},
        'Secrets are stored unencrypted, as this data directory was created: `encryption: {}` in the cluster file encrypts them',
      );
  }

  /** What looks after objects of the server's own; each goes on by itself after it was started. */
  async #startControllers(): Promise<void> {
    const { cluster, keys } = this.#dependencies;
    const { clock, log } = this.#context;
    const pipeline = this.#pipeline;
    const hooks = this.#postStartHooks;
    const run = (name: PostStartHookName, keeper: Controller | undefined) => keeper && hooks.run(name, keeper.start());
    const addresses = hooks.applies('serviceCidrs')
      ? new ServiceCidrController({ pipeline, cidrs: cluster.serviceCIDRs, clock, log })
      : undefined;
    const fairness = hooks.applies('fairness')
      ? new FlowControlConfigurationController({ pipeline, fairness: this.#fairness, clock, log })
      : undefined;
    const own = hooks.applies('apiServices')
      ? new ApiServiceController({ pipeline, aggregator: this.#aggregator, caBundle: keys.caBundle, clock, log })
      : undefined;
    this.#controllers = [addresses, fairness, this.#aggregator, own].filter((keeper) => keeper !== undefined);
    await Promise.all([
      run('serviceCidrs', addresses),
      run('fairness', fairness),
      own && run('aggregator', this.#aggregator)?.then(() => run('apiServices', own)),
    ]);
  }

  /** Not ready first; then nothing new, an end to watches, some time for the rest; then the port is free. */
  async stop(): Promise<void> {
    this.#phase = 'stopping';
    this.#readySettlers.reject(new Error('the API server was stopped'));
    this.#certificate.stop();
    await Promise.all(this.#controllers.map((keeper) => keeper.stop()));
    await this.#bootstrap?.stop();
    const drained = this.#handler.drain();
    this.#server?.stopAccepting();
    const { clock, log } = this.#context;
    const late = new Promise<void>((resolve) => {
      const timer = clock.after(this.#dependencies.config.drainSeconds * 1000, () => {
        log.warn({ requests: this.#handler.active }, 'requests were cut off');
        resolve();
      });
      void drained.then(() => {
        timer.cancel();
      });
    });
    await Promise.race([drained, late]);
    await this.#server?.close();
    await this.#pipeline.stop();
  }

  waitUntilReady(signal: AbortSignal): Promise<void> {
    return Promise.race([
      this.#ready,
      new Promise<never>((_, reject) => {
        signal.addEventListener(
          'abort',
          () => {
            reject(signal.reason);
          },
          { once: true },
        );
      }),
    ]);
  }

  checkHealth(): Health {
    if (this.#phase === 'stopping') return unhealthy('shutting down');
    return this.#pipeline.ready ? healthy : unhealthy('the watch cache does not follow the storage');
  }

  /**
   * The address of this server in the Service `kubernetes`. A loopback address is none unless the cluster's own addresses are such:
   * Endpoints may not have it, and nobody in a pod could use it.
   */
  get #advertisedAddress(): string {
    const { config, cluster } = this.#dependencies;
    const onLoopback = cluster.serviceCIDRs.some(isLoopback);
    const usable = (address: string | undefined): address is string =>
      address !== undefined && isIP(address) !== 0 && address !== '0.0.0.0' && address !== '::' && (onLoopback || !isLoopback(address));
    const outside = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .find(({ internal, family }) => !internal && family === 'IPv4');
    return [config.advertiseAddress, config.listen.address, outside?.address].find(usable) ?? '127.0.0.1';
  }

  /** What upstream's componentstatuses shows: the store, and the parts of the control plane that run in this process. */
  #components(): readonly Component[] {
    const { storage, process } = this.#dependencies;
    const roles = process?.roles() ?? [];
    return [
      { name: 'scheduler', role: 'scheduler' },
      { name: 'controller-manager', role: 'controllers' },
    ]
      .flatMap(({ name, role }): Component[] => {
        const found = roles.find((candidate) => candidate.name === role);
        return found === undefined ? [] : [{ name, check: () => found.checkHealth() }];
      })
      .concat({
        name: 'etcd-0',
        check: async () => {
          await storage.get(storageKey);
          return healthy;
        },
      });
  }

  #checks(): readonly HealthCheck[] {
    const { storage, process } = this.#dependencies;
    const others = (process?.roles() ?? []).filter((role) => role !== this && role.name !== this.name);
    const answers = async () => {
      await storage.get(storageKey);
      return healthy;
    };
    return [
      ping,
      // named as upstream names what is the same, so that who asks for or excludes it there can do so here
      { name: 'etcd', live: true, ready: true, check: answers },
      { name: 'etcd-readiness', live: false, ready: true, check: answers },
      {
        name: 'informer-sync',
        live: false,
        ready: true,
        check: () => (this.#pipeline.ready ? healthy : unhealthy('the watch cache does not follow the storage')),
      },
      ...this.#postStartHooks.checks(),
      { name: 'shutdown', live: false, ready: true, check: () => (this.#phase === 'stopping' ? unhealthy('shutting down') : healthy) },
      ...others.map((role): HealthCheck => ({ name: role.name, live: true, ready: false, check: () => role.checkHealth() })),
    ];
  }
}
