import { isIP, type AddressInfo } from 'node:net';
import { pluginNameOf } from '@oarlock/kernel/plugin';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { AuditSink } from '@oarlock/spi/audit';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { CertificateRequest, ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { LoopbackSwitch } from '@oarlock/spi/loopback';
import type { PathHandler } from '@oarlock/spi/paths';
import type { ProcessView } from '@oarlock/spi/process';
import type { Health, Role } from '@oarlock/spi/role';
import type { StorageDriver } from '@oarlock/spi/storage';
import { collectDefaultMetrics } from 'prom-client';
import { apiHandler } from './api-handler.ts';
import { loadAuditPolicy } from './audit/audit-policy.ts';
import { Auditor } from './audit/auditor.ts';
import { Bootstrap } from './bootstrap.ts';
import { DiscoveryEndpoints } from './discovery-endpoints.ts';
import { HealthEndpoints, ping, type HealthCheck } from './health.ts';
import { HttpHandler } from './http-handler.ts';
import { FairnessConfiguration } from './fairness/configuration.ts';
import { registerFairnessMetrics } from './fairness/fairness-metrics.ts';
import { fairnessDumps } from './fairness/dumps.ts';
import { PriorityAndFairness } from './fairness/priority-and-fairness.ts';
import { InFlight } from './http-inflight.ts';
import { loopbackPaths, PathEndpoints } from './http-paths.ts';
import { HttpServer } from './http-server.ts';
import { meteredStorage } from './metered-storage.ts';
import { healthMetrics, registerObjectCounts, RequestMetrics } from './metrics.ts';
import { AccessMetrics } from './access-metrics.ts';
import { AdmissionMetrics } from './admission-metrics.ts';
import { RuleMetrics } from './custom-resources/rule-metrics.ts';
import { registerFeatures } from './feature-metrics.ts';
import { registerWatchCacheMetrics } from './watch-cache/watch-cache-metrics.ts';
import { OpenApiEndpoints } from './openapi-endpoints.ts';
import { Pipeline } from './pipeline.ts';
import { StartHooks, type HookName } from './start-hooks.ts';
import { EncryptedStorage } from './storage-encryption.ts';
import { loadEncryption, type EncryptionSettings } from './storage-encryption-config.ts';
import { ServiceCidrs } from './service-cidrs.ts';
import type { RuntimeConfig } from './runtime-config.ts';
import type { Component } from './subresources/component-statuses.ts';
import { ServingCertificate, servingRequest } from './tls-serving.ts';
import { Aggregator } from './aggregation/aggregator.ts';
import { ApiServices } from './aggregation/api-services.ts';
import { frontProxyClient } from './aggregation/front-proxy.ts';
import { IssuedIdentity, type Verify } from './aggregation/issued-identity.ts';
import { ProxyEndpoints } from './aggregation/proxy-endpoints.ts';
import { withRemoteKinds } from './aggregation/remote-kinds.ts';
import { ReverseProxy } from './aggregation/reverse-proxy.ts';
import { KubeletProxy } from './upgrade-kubelet.ts';

export interface ApiServerConfig {
  readonly listen: { readonly address: string; readonly port: number };
  readonly advertiseAddress?: string | undefined;
  readonly certSANs: readonly string[];
  readonly requestTimeoutSeconds: number;
  readonly maxRequestsInflight: number;
  readonly maxMutatingRequestsInflight: number;
  readonly maxStreamsPerConnection: number;
  readonly drainSeconds: number;
  readonly encryption?: EncryptionSettings | undefined;
  readonly auditPolicy?: string | undefined;
  readonly runtimeConfig: RuntimeConfig;
  readonly verifyKubelets: Verify;
}

export interface ApiServerParts {
  readonly config: ApiServerConfig;
  readonly storage: StorageDriver;
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  readonly audit: readonly AuditSink[];
  readonly loopback: LoopbackSwitch;
  readonly cluster: ClusterFacts;
  readonly keys: ClusterKeys;
  readonly paths: readonly PathHandler[];
  readonly process: ProcessView | undefined;
  readonly localNodes?: LocalNodes | undefined;
}

/** How the server shows itself to kubelets. */
const kubeletClient: CertificateRequest = {
  commonName: 'kube-apiserver-kubelet-client',
  organizations: ['system:masters'],
  usages: ['client'],
};
const isLoopback = (address: string) => address.startsWith('127.') || address === '::1';
/** Of the time that a request has, it may wait this part for a place. */
const waitingShare = 0.25;
const storageKey = '/oarlock/health';
const healthy: Health = { healthy: true };
const unhealthy = (because: string): Health => ({ healthy: false, because });

interface Keeper {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The pipeline with HTTP in front of it, as one role of the process. */
export class HttpApiServer implements Role {
  readonly name = 'apiserver';
  readonly #parts: ApiServerParts;
  readonly #context: PluginContext;
  readonly #pipeline: Pipeline;
  readonly #handler: HttpHandler;
  readonly #paths: PathEndpoints;
  readonly #certificate: ServingCertificate;
  readonly #ready: Promise<void>;
  #settle: { resolve(): void; reject(reason: unknown): void } = { resolve() {}, reject() {} };
  #server: HttpServer | undefined;
  #bootstrap: Bootstrap | undefined;
  #bound: AddressInfo | undefined;
  #keepers: readonly Keeper[] = [];
  readonly #aggregator: Aggregator;
  readonly #auditor: Auditor | undefined;
  readonly #fairness: PriorityAndFairness;
  readonly #storage: StorageDriver;
  readonly #encrypted: EncryptedStorage | undefined;
  readonly #hooks: StartHooks;
  #phase: 'starting' | 'running' | 'stopping' = 'starting';

  constructor(parts: ApiServerParts, context: PluginContext) {
    this.#parts = parts;
    this.#context = context;
    const { config, storage, authn, authz, admission, audit, cluster, keys, paths, process, localNodes: local } = parts;
    const { clock, log, metrics, tracer, signal } = context;
    this.#ready = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.#ready.catch(() => undefined); // told to whoever asks
    this.#encrypted = config.encryption && new EncryptedStorage(storage, log);
    this.#storage = meteredStorage(this.#encrypted ?? storage, metrics, clock);
    const access = new AccessMetrics(metrics);
    this.#pipeline = new Pipeline({
      metrics: { access, admission: new AdmissionMetrics(metrics), rules: new RuleMetrics(metrics, clock) },
      names: { authz: authz.map(pluginNameOf), admission: admission.map(pluginNameOf) },
      storage: this.#storage,
      stale: (value) => this.#encrypted?.isStale(value) ?? false,
      authn,
      authz,
      admission,
      facts: cluster,
      keys,
      clock,
      log,
      tracer,
      components: () => this.#components(),
      runtimeConfig: config.runtimeConfig,
    });
    const served = () => this.#pipeline.served();
    this.#hooks = new StartHooks(served);
    const proxy = new ReverseProxy(signal);
    this.#aggregator = new Aggregator({
      pipeline: this.#pipeline,
      proxy,
      frontProxy: new IssuedIdentity(keys, frontProxyClient, clock),
      clock,
      log,
    });
    const remote = () => this.#aggregator.groups;
    this.#auditor = audit.length === 0 ? undefined : new Auditor(audit, clock, log);
    const inFlight = new InFlight();
    this.#fairness = new PriorityAndFairness(
      config.maxRequestsInflight + config.maxMutatingRequestsInflight,
      config.requestTimeoutSeconds * 1000 * waitingShare,
      clock,
    );
    registerFairnessMetrics(metrics, this.#fairness);
    this.#paths = new PathEndpoints({
      discovery: new DiscoveryEndpoints(served, () => `${this.#advertised}:${this.address.port}`, remote),
      openApi: new OpenApiEndpoints(served, cluster.version, remote, () => this.#aggregator.documents()),
      health: new HealthEndpoints(
        () => this.#checks(),
        clock,
        (name, because) => {
          log.warn({ check: name, because }, 'a health check failed');
        },
        healthMetrics(metrics),
      ),
      handlers: paths,
      version: cluster.version,
      registries: () => [metrics, ...(process?.registries() ?? [])],
      pages: fairnessDumps(this.#fairness, clock),
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
      kubelets: new KubeletProxy(keys, signal, { verify: config.verifyKubelets, local }),
      aggregator: this.#aggregator,
      proxies: new ProxyEndpoints(proxy, new IssuedIdentity(keys, kubeletClient, clock, { verify: config.verifyKubelets })),
      requestTimeoutMs: config.requestTimeoutSeconds * 1000,
      access,
      metrics: new RequestMetrics(metrics, { mutating: () => inFlight.mutating, readOnly: () => inFlight.readOnly }, cluster.version),
    });
    registerWatchCacheMetrics(metrics, () => this.#pipeline.caches());
    registerFeatures(metrics);
    registerObjectCounts(metrics, served, (group, version, resource) => this.#pipeline.count(group, version, resource));
    this.#certificate = new ServingCertificate(
      keys,
      servingRequest(cluster, [config.advertiseAddress, config.listen.address, ...config.certSANs]),
      clock,
    );
  }

  /** Where it listens. @throws Error before it does */
  get address(): { readonly host: string; readonly port: number } {
    if (this.#bound === undefined) throw new Error('the API server does not listen yet');
    return { host: this.#bound.address, port: this.#bound.port };
  }

  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.#start(signal);
      this.#settle.resolve();
    } catch (error) {
      this.#settle.reject(error);
      throw error;
    }
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { config, keys, loopback, cluster, storage, authz } = this.#parts;
    const { clock, log, metrics, dataDir } = this.#context;
    collectDefaultMetrics({ register: metrics });
    if (config.encryption) this.#encrypted?.use(await loadEncryption(config.encryption, join(dataDir, 'encryption')));
    if (config.auditPolicy !== undefined) this.#auditor?.use(await loadAuditPolicy(config.auditPolicy));
    const issued = this.#certificate.start(
      (renewed) => {
        this.#server?.renew(renewed);
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
      withRemoteKinds(this.#pipeline, this.#aggregator, authz),
      loopbackPaths(this.#paths, authz, this.#aggregator),
    ];
    const auditor = this.#auditor;
    loopback.connect(auditor ? apiHandler(auditor.pipeline(pipeline), auditor.paths(paths), clock) : apiHandler(pipeline, paths, clock));
    this.#bootstrap = new Bootstrap({
      pipeline: this.#pipeline,
      storage,
      facts: cluster,
      address: this.#advertised,
      port: this.#bound.port,
      clock,
      log,
    });
    await this.#hooks.run('bootstrap', this.#bootstrap.start(signal));
    await this.#startKeepers();
    this.#phase = 'running';
    log.info({ address: this.#bound.address, port: this.#bound.port }, 'the API server listens');
  }

  /** What looks after objects of the server's own; each goes on by itself after it was started. */
  async #startKeepers(): Promise<void> {
    const { cluster, keys } = this.#parts;
    const { clock, log } = this.#context;
    const pipeline = this.#pipeline;
    const hooks = this.#hooks;
    const run = (name: HookName, keeper: Keeper | undefined) => keeper && hooks.run(name, keeper.start());
    const addresses = hooks.applies('serviceCidrs') ? new ServiceCidrs({ pipeline, cidrs: cluster.serviceCIDRs, clock, log }) : undefined;
    const fairness = hooks.applies('fairness') ? new FairnessConfiguration({ pipeline, fairness: this.#fairness, clock, log }) : undefined;
    const own = hooks.applies('apiServices')
      ? new ApiServices({ pipeline, aggregator: this.#aggregator, caBundle: keys.caBundle, clock, log })
      : undefined;
    this.#keepers = [addresses, fairness, this.#aggregator, own].filter((keeper) => keeper !== undefined);
    await Promise.all([
      run('serviceCidrs', addresses),
      run('fairness', fairness),
      own && run('aggregator', this.#aggregator)?.then(() => run('apiServices', own)),
    ]);
  }

  /** Not ready first; then nothing new, an end to watches, some time for the rest; then the port is free. */
  async stop(): Promise<void> {
    this.#phase = 'stopping';
    this.#settle.reject(new Error('the API server was stopped'));
    this.#certificate.stop();
    await Promise.all(this.#keepers.map((keeper) => keeper.stop()));
    await this.#bootstrap?.stop();
    const drained = this.#handler.drain();
    this.#server?.refuse();
    const { clock, log } = this.#context;
    const late = new Promise<void>((resolve) => {
      const timer = clock.after(this.#parts.config.drainSeconds * 1000, () => {
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

  ready(signal: AbortSignal): Promise<void> {
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

  health(): Health {
    if (this.#phase === 'stopping') return unhealthy('shutting down');
    return this.#pipeline.ready ? healthy : unhealthy('the watch cache does not follow the storage');
  }

  /**
   * The address of this server in the Service `kubernetes`. A loopback address is none unless the cluster's own addresses are such:
   * Endpoints may not have it, and nobody in a pod could use it.
   */
  get #advertised(): string {
    const { config, cluster } = this.#parts;
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
    const { storage, process } = this.#parts;
    const roles = process?.roles() ?? [];
    return [
      { name: 'scheduler', role: 'scheduler' },
      { name: 'controller-manager', role: 'controllers' },
    ]
      .flatMap(({ name, role }): Component[] => {
        const found = roles.find((candidate) => candidate.name === role);
        return found === undefined ? [] : [{ name, check: () => found.health() }];
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
    const { storage, process } = this.#parts;
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
      ...this.#hooks.checks(),
      { name: 'shutdown', live: false, ready: true, check: () => (this.#phase === 'stopping' ? unhealthy('shutting down') : healthy) },
      ...others.map((role): HealthCheck => ({ name: role.name, live: true, ready: false, check: () => role.health() })),
    ];
  }
}
