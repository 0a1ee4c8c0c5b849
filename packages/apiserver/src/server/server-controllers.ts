import type { PluginContext } from '@oarlock/kernel/plugin';
import { ApiServiceController } from '../aggregation/api-service-controller.ts';
import { ClusterAuthenticationTrustController } from '../aggregation/cluster-authentication-trust-controller.ts';
import { frontProxyKeys } from '../aggregation/request-header.ts';
import { BootstrapController } from '../controllers/bootstrap-controller.ts';
import { ServiceCidrController } from '../controllers/service-cidr-controller.ts';
import { FlowControlConfigurationController } from '../flowcontrol/configuration-controller.ts';
import type { PostStartHookName } from '../handler-chain/post-start-hooks.ts';
import type { ServerComponents } from './server-components.ts';
import type { ApiServerDependencies } from './server-options.ts';

interface Controller {
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface ServerControllersOptions {
  readonly dependencies: ApiServerDependencies;
  readonly context: PluginContext;
  readonly components: ServerComponents;
}

/**
 * The controllers of objects that the API server itself maintains: system namespaces, the Service `kubernetes`, ServiceCIDRs, FlowSchemas,
 * APIServices, and the CAs of clients.
 */
export class ServerControllers {
  readonly #options: ServerControllersOptions;
  #bootstrap: BootstrapController | undefined;
  #controllers: readonly Controller[] = [];

  constructor(options: ServerControllersOptions) {
    this.#options = options;
  }

  /** Runs the bootstrap controller, then starts the other controllers. `address` and `port` are the endpoint of the Service `kubernetes`. */
  async start(signal: AbortSignal, { address, port }: { readonly address: string; readonly port: number }): Promise<void> {
    const { dependencies, context, components } = this.#options;
    const { clock, log } = context;
    this.#bootstrap = new BootstrapController({
      pipeline: components.pipeline,
      storage: dependencies.storage,
      facts: dependencies.cluster,
      address,
      port,
      clock,
      log,
    });
    await components.postStartHooks.run('bootstrap', this.#bootstrap.start(signal));
    await this.#startControllers();
  }

  async #startControllers(): Promise<void> {
    const { dependencies, context, components } = this.#options;
    const { cluster, keys } = dependencies;
    const { clock, log } = context;
    const { pipeline, aggregator, fairness, postStartHooks: hooks } = components;
    const run = (name: PostStartHookName, controller: Controller | undefined) => controller && hooks.run(name, controller.start());
    const serviceCidrs = hooks.applies('serviceCidrs')
      ? new ServiceCidrController({ pipeline, cidrs: cluster.serviceCIDRs, clock, log })
      : undefined;
    const flowControl = hooks.applies('fairness') ? new FlowControlConfigurationController({ pipeline, fairness, clock, log }) : undefined;
    const apiServices = hooks.applies('apiServices') ? new ApiServiceController({ pipeline, aggregator, clock, log }) : undefined;
    const authenticationTrust = hooks.applies('clusterAuthentication')
      ? new ClusterAuthenticationTrustController({ pipeline, keys, frontProxy: frontProxyKeys(keys), clock, log })
      : undefined;
    this.#controllers = [serviceCidrs, flowControl, aggregator, authenticationTrust, apiServices].filter(
      (controller) => controller !== undefined,
    );
    await Promise.all([
      run('clusterAuthentication', authenticationTrust),
      run('serviceCidrs', serviceCidrs),
      run('fairness', flowControl),
      apiServices && run('aggregator', aggregator)?.then(() => run('apiServices', apiServices)),
    ]);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#controllers.map((controller) => controller.stop()));
    await this.#bootstrap?.stop();
  }
}
