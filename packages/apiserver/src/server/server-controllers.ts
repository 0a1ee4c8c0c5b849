import type { PluginContext } from '@oarlock/kernel/plugin';
import { ApiServiceController } from '../aggregation/api-service-controller.ts';
import { ClusterAuthenticationTrustController } from '../aggregation/cluster-authentication-trust-controller.ts';
import { frontProxyKeys } from '../aggregation/request-header.ts';
import { BootstrapController } from '../controllers/bootstrap-controller.ts';
import { IdentityLeaseController } from '../controllers/identity-lease-controller.ts';
import { ServiceCidrController } from '../controllers/service-cidr-controller.ts';
import { FlowControlConfigurationController } from '../flowcontrol/configuration-controller.ts';
import type { PostStartHooks, ServerHookName } from '../handler-chain/post-start-hooks.ts';
import type { ServerComponents } from './server-components.ts';
import type { ApiServerDependencies } from './server-options.ts';

interface Controller {
  stop(): Promise<void>;
}

export interface ServerControllersOptions {
  readonly dependencies: ApiServerDependencies;
  readonly context: PluginContext;
  readonly components: ServerComponents;
}

/** The hooks that create objects of the cluster or of the server. */
const objectHooks: readonly ServerHookName[] = [
  'namespaces',
  'priorityClasses',
  'bootstrap',
  'tokenTracking',
  'serviceCidrs',
  'clusterAuthentication',
  'identityLease',
  'identityLeaseCollector',
];

interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/**
 * The controllers of objects that the API server itself maintains: system namespaces, the Service `kubernetes`, ServiceCIDRs, FlowSchemas,
 * APIServices, the Lease of the server, and the CAs of clients. Each is a post-start hook.
 */
export class ServerControllers {
  readonly #options: ServerControllersOptions;
  readonly #hooks: PostStartHooks;
  #bootstrap: BootstrapController | undefined;
  #controllers: readonly Controller[] = [];

  constructor(options: ServerControllersOptions) {
    this.#options = options;
    this.#hooks = options.components.postStartHooks;
  }

  /**
   * Runs the bootstrap controller, then starts the other controllers. Resolves when they have run once; `postStartHooks` of the components reports
   * when all hooks have completed. `address` and `port` are the endpoint of the Service `kubernetes`.
   */
  async start(signal: AbortSignal, endpoint: Endpoint): Promise<void> {
    const { dependencies } = this.#options;
    const hooks = this.#hooks;
    for (const { postStartHook: hook } of dependencies.authz)
      if (hook !== undefined) this.#runInBackground(hook.name, hooks.runPluginHook(hook.name, hook.run(signal)));
    if (dependencies.workers?.isWorker === true) await this.#skipObjects();
    else await this.#startBootstrap(signal, endpoint);
    await this.#startControllers(endpoint);
  }

  /** Completes the hooks whose objects the first process has created before it started this worker. */
  async #skipObjects(): Promise<void> {
    await Promise.all(objectHooks.map((hook) => this.#hooks.run(hook, Promise.resolve())));
  }

  async #startBootstrap(signal: AbortSignal, endpoint: Endpoint): Promise<void> {
    const { dependencies, context, components } = this.#options;
    const hooks = this.#hooks;
    const bootstrap = new BootstrapController({
      pipeline: components.pipeline,
      storage: dependencies.storage,
      facts: dependencies.cluster,
      ...endpoint,
      clock: context.clock,
      log: context.log,
    });
    this.#bootstrap = bootstrap;
    const created = [
      hooks.run('namespaces', bootstrap.whenNamespacesExist()),
      hooks.run('priorityClasses', bootstrap.whenPriorityClassesExist()),
    ];
    await Promise.all([hooks.run('bootstrap', bootstrap.start(signal)), ...created]);
    this.#runInBackground('tokenTracking', hooks.run('tokenTracking', bootstrap.whenTrackingAttempted()));
  }

  async #startControllers(endpoint: Endpoint): Promise<void> {
    const { dependencies, components } = this.#options;
    const hooks = this.#hooks;
    const started: Promise<void>[] = [];
    const controllers: Controller[] = [];
    if (hooks.applies('fairnessProducer')) started.push(this.#startFlowControl(controllers));
    if (hooks.applies('apiServices')) started.push(this.#startAggregation(controllers));
    if (dependencies.workers?.isWorker !== true) this.#startObjectControllers(endpoint, { controllers, started });
    controllers.push(components.aggregator);
    this.#controllers = controllers;
    await Promise.all(started);
  }

  /** Starts the controllers of objects of which the processes of one server have only one. */
  #startObjectControllers(
    endpoint: Endpoint,
    { controllers, started }: { readonly controllers: Controller[]; readonly started: Promise<void>[] },
  ): void {
    const { dependencies, context, components } = this.#options;
    const { cluster, keys } = dependencies;
    const options = { pipeline: components.pipeline, clock: context.clock, log: context.log };
    const hooks = this.#hooks;
    if (hooks.applies('serviceCidrs')) {
      const serviceCidrs = new ServiceCidrController({ ...options, cidrs: cluster.serviceCIDRs });
      controllers.push(serviceCidrs);
      started.push(hooks.run('serviceCidrs', serviceCidrs.start()));
    }
    if (hooks.applies('clusterAuthentication')) {
      const trust = new ClusterAuthenticationTrustController({ ...options, keys, frontProxy: frontProxyKeys(keys) });
      controllers.push(trust);
      started.push(hooks.run('clusterAuthentication', trust.start()));
    }
    if (hooks.applies('identityLease')) {
      const identity = new IdentityLeaseController({ ...options, endpoint: `${endpoint.address}:${endpoint.port}` });
      controllers.push(identity);
      started.push(hooks.run('identityLease', identity.startRenewal()), hooks.run('identityLeaseCollector', identity.startCollection()));
    }
  }

  async #startFlowControl(controllers: Controller[]): Promise<void> {
    const { components, context } = this.#options;
    const { pipeline, fairness } = components;
    const flowControl = new FlowControlConfigurationController({ pipeline, fairness, clock: context.clock, log: context.log });
    controllers.push(flowControl);
    this.#runInBackground('fairnessProducer', this.#hooks.run('fairnessProducer', flowControl.whenBootstrapped()));
    this.#runInBackground('fairnessConsumer', this.#hooks.run('fairnessConsumer', flowControl.whenConfigured()));
    await flowControl.start();
  }

  async #startAggregation(controllers: Controller[]): Promise<void> {
    const { components, context } = this.#options;
    const { pipeline, aggregator } = components;
    const hooks = this.#hooks;
    const apiServices = new ApiServiceController({ pipeline, aggregator, clock: context.clock, log: context.log });
    controllers.push(apiServices);
    this.#runInBackground('apiServices', hooks.run('apiServices', apiServices.whenRegistered()));
    await hooks.run('aggregator', aggregator.start());
    await apiServices.start();
  }

  /** Logs the failure of a hook that the start does not wait for. The health check of the hook stays unhealthy. */
  #runInBackground(hook: string, work: Promise<void>): void {
    const { log, signal } = this.#options.context;
    work.catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error, hook }, 'a post-start hook failed');
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.#controllers.map((controller) => controller.stop()));
    await this.#bootstrap?.stop();
  }
}
