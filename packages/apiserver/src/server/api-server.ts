import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { PluginContext } from '@oarlock/kernel/plugin';
import { RenewedCertificate } from '@oarlock/primitives/net/renewed-certificate';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Health, Role } from '@oarlock/spi/role';
import { collectDefaultMetrics } from 'prom-client';
import { frontProxyKeys } from '../aggregation/request-header.ts';
import { withAggregatedKinds } from '../aggregation/remote-kinds.ts';
import { loadAuditPolicy } from '../audit/audit-policy.ts';
import { defaultAuditPolicy } from '../audit/default-audit-policy.ts';
import type { HealthCheck } from '../handler-chain/health-endpoints.ts';
import { loopbackPathHandler } from '../handler-chain/path-endpoints.ts';
import { connectionLimits, readOpenFilesLimit, withinOpenFiles } from '../http/connection-limits.ts';
import { HttpServer } from '../http/server.ts';
import { loopbackHandler } from '../pipeline/loopback-handler.ts';
import type { Listener } from '../proxy/proxy-addresses.ts';
import { loadDefaultEncryption, loadEncryption } from '../storage/encryption/encryption-config.ts';
import { rejectInterruptedRestore } from '../storage/interrupted-restore.ts';
import { advertisedAddress } from './advertised-address.ts';
import { healthy, serverHealthChecks, unhealthy } from './health-checks.ts';
import { newServerComponents, type ServerComponents } from './server-components.ts';
import { ServerControllers } from './server-controllers.ts';
import type { ApiServerDependencies } from './server-options.ts';

/** The API server role: serves the Kubernetes API over HTTP and to loopback clients, like kube-apiserver with an integrated aggregator. */
export class ApiServer implements Role {
  readonly name = 'apiserver';
  readonly #dependencies: ApiServerDependencies;
  readonly #context: PluginContext;
  readonly #components: ServerComponents;
  readonly #controllers: ServerControllers;
  readonly #ready: Promise<void>;
  #settleReady: { resolve(): void; reject(reason: unknown): void } = { resolve() {}, reject() {} };
  #server: HttpServer | undefined;
  #certificate: RenewedCertificate | undefined;
  #bound: AddressInfo | undefined;
  #stopFollowingKeys: (() => void) | undefined;
  #phase: 'starting' | 'running' | 'stopping' = 'starting';

  constructor(dependencies: ApiServerDependencies, context: PluginContext) {
    this.#dependencies = dependencies;
    this.#context = context;
    this.#ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.#ready.catch(() => undefined); // callers of waitUntilReady receive the rejection
    this.#components = newServerComponents(dependencies, context, {
      listeners: () => this.#listeners(),
      endpoint: () => `${this.#advertisedAddress}:${this.address.port}`,
      healthChecks: () => this.#healthChecks(),
    });
    this.#controllers = new ServerControllers({ dependencies, context, components: this.#components });
  }

  /** The address on which the server listens. @throws Error before the server listens */
  get address(): { readonly host: string; readonly port: number } {
    if (this.#bound === undefined) throw new Error('the API server does not listen yet');
    return { host: this.#bound.address, port: this.#bound.port };
  }

  get #advertisedAddress(): string {
    return advertisedAddress(this.#dependencies.config, this.#dependencies.cluster);
  }

  #listeners(): readonly Listener[] {
    if (this.#bound === undefined) return [];
    const { address, port } = this.#bound;
    return [address, this.#advertisedAddress].map((host) => ({ host, port }));
  }

  /** Starts the server. It is ready when the post-start hooks have completed, some of which run in the background. */
  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.#start(signal);
      void this.#components.postStartHooks.whenCompleted().then(() => this.#settleReady.resolve());
    } catch (error) {
      this.#settleReady.reject(error);
      throw error;
    }
  }

  /** Starts the parts of the server in order: configuration files, storage and watch cache, the listener, loopback clients, controllers. */
  async #start(signal: AbortSignal): Promise<void> {
    const { log, metrics } = this.#context;
    collectDefaultMetrics({ register: metrics });
    await rejectInterruptedRestore(this.#dependencies.storage);
    await this.#loadConfiguration();
    const { pipeline, postStartHooks: hooks } = this.#components;
    const cached = pipeline.start(signal);
    const [pair] = await Promise.all([
      this.#startCertificate(),
      hooks.run('watchCache', cached),
      hooks.run('definitions', cached),
      hooks.run('admission', Promise.resolve()), // the plugin host starts the plugins that this role needs before the role
    ]);
    const { address, port } = await this.#listen(pair);
    this.#connectLoopback();
    await this.#controllers.start(signal, { address: this.#advertisedAddress, port });
    this.#phase = 'running';
    log.info({ address, port }, 'the API server listens');
  }

  async #loadConfiguration(): Promise<void> {
    const { auditPolicy, defaultAuditPolicy: usesDefaultPolicy } = this.#dependencies.config;
    const { auditor } = this.#components;
    const encryptionDirectory = join(this.#context.dataDir, 'encryption');
    await this.#loadEncryption(encryptionDirectory);
    this.#stopFollowingKeys = this.#dependencies.keys.onChange?.(async () => {
      await this.#loadEncryption(encryptionDirectory);
      await this.#components.pipeline.rereadUnreadable();
    });
    if (usesDefaultPolicy === true) auditor?.setPolicy(defaultAuditPolicy);
    if (auditPolicy !== undefined) auditor?.setPolicy(await loadAuditPolicy(auditPolicy));
  }

  async #loadEncryption(directory: string): Promise<void> {
    const { config, storage } = this.#dependencies;
    const { encryptedStorage } = this.#components;
    if (encryptedStorage === undefined) return;
    if (config.encryption) return encryptedStorage.setRules(await loadEncryption(config.encryption, directory));
    const rules = await loadDefaultEncryption(storage, directory);
    encryptedStorage.setRules(rules);
    if (rules.length === 0 && !storage.traits.shared)
      this.#context.log.warn(
        {},
        'Secrets are stored unencrypted, as this data directory was created: `encryption: {}` in the cluster file encrypts them',
      );
  }

  #startCertificate(): Promise<KeyPair> {
    const { keys } = this.#dependencies;
    const { clock, log } = this.#context;
    this.#certificate = new RenewedCertificate({
      issue: () => keys.issue(this.#components.certificateRequest),
      onRenew: (pair) => this.#server?.setCertificate(pair),
      onFailure: (error) => log.error({ err: error }, 'renewing the serving certificate failed'),
      clock,
    });
    return this.#certificate.start();
  }

  async #listen(pair: KeyPair): Promise<AddressInfo> {
    const { config, keys } = this.#dependencies;
    const { clock, log, metrics } = this.#context;
    this.#server = new HttpServer({
      pair,
      clientAuthorities: { cluster: keys.caBundle, frontProxy: frontProxyKeys(keys).caBundle },
      maxStreamsPerConnection: config.maxStreamsPerConnection,
      limits: connectionLimits(withinOpenFiles(config.connections, await readOpenFilesLimit()), config.requestTimeoutSeconds * 1000),
      clock,
      log,
      registry: metrics,
      handle: (exchange, upgrade) => this.#components.handler.handle(exchange, upgrade),
    });
    this.#bound = await this.#server.listen(config.listen.address, config.listen.port, this.#dependencies.workers);
    return this.#bound;
  }

  /** Connects the loopback clients of this process to the pipeline and to the handlers of non-resource paths. */
  #connectLoopback(): void {
    const { loopback, authz } = this.#dependencies;
    const { clock } = this.#context;
    const { addresses, aggregator, auditor } = this.#components;
    const options = { clock, addresses };
    const pipeline = withAggregatedKinds(this.#components.pipeline, aggregator, authz);
    const paths = loopbackPathHandler(this.#components.paths, authz, aggregator);
    loopback.connect(
      auditor
        ? loopbackHandler(auditor.auditPipeline(pipeline), auditor.auditPaths(paths), options)
        : loopbackHandler(pipeline, paths, options),
    );
  }

  /** Stops the server in order: /readyz fails, new requests are rejected, watches end, other requests have `drainSeconds`, the port is released. */
  async stop(): Promise<void> {
    this.#phase = 'stopping';
    this.#stopFollowingKeys?.();
    this.#settleReady.reject(new Error('the API server was stopped'));
    this.#certificate?.stop();
    await this.#controllers.stop();
    const drained = this.#components.handler.drain();
    this.#server?.stopAccepting();
    await Promise.race([drained, this.#drainTimeout(drained)]);
    await this.#server?.close();
    await this.#components.pipeline.stop();
  }

  #drainTimeout(drained: Promise<unknown>): Promise<void> {
    const { clock, log } = this.#context;
    return new Promise<void>((resolve) => {
      const timer = clock.after(this.#dependencies.config.drainSeconds * 1000, () => {
        log.warn({ requests: this.#components.handler.active }, 'requests were aborted after drainSeconds');
        resolve();
      });
      void drained.then(() => {
        timer.cancel();
      });
    });
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
    return this.#phase === 'stopping' ? this.#checkShutdown() : this.#checkCache();
  }

  #checkShutdown(): Health {
    return this.#phase === 'stopping' ? unhealthy('shutting down') : healthy;
  }

  #checkCache(): Health {
    return this.#components.pipeline.ready ? healthy : unhealthy('the watch cache is not synchronized with storage');
  }

  #healthChecks(): readonly HealthCheck[] {
    const { storage, process, workers } = this.#dependencies;
    return serverHealthChecks({
      storage,
      process,
      workers: workers?.workers() ?? [],
      server: this,
      postStartHooks: this.#components.postStartHooks,
      checkCache: () => this.#checkCache(),
      undecryptableValues: () => this.#components.pipeline.undecryptableValues,
      checkShutdown: () => this.#checkShutdown(),
    });
  }
}
