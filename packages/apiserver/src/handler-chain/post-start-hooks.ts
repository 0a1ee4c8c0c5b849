import type { Kind } from '@oarlock/api/kinds';
import type { Health } from '@oarlock/spi/role';
import type { HealthCheck } from './health-endpoints.ts';

/** Work of the server that must complete before the server is ready. */
interface ServerHook {
  /** The names of upstream's health checks whose work this hook does. */
  readonly checks: readonly string[];
  /** The resources that the server must serve for the hook to run. */
  readonly requiredResources?: readonly string[];
}

/** The hooks of the server. A hook completes when the state that the comment describes is reached. */
const serverHooks = {
  /** The plugins of the admission chain have started. */
  admission: { checks: ['start-apiserver-admission-initializer'] },
  /** The watch cache contains the objects of storage. */
  watchCache: { checks: ['generic-apiserver-start-informers'] },
  /** Priority and fairness classifies requests by the stored FlowSchemas. */
  fairnessConsumer: {
    checks: ['priority-and-fairness-config-consumer'],
    requiredResources: ['flowschemas', 'prioritylevelconfigurations'],
  },
  /** The kinds of all established CustomResourceDefinitions are served. */
  definitions: { checks: ['start-apiextensions-informers', 'start-apiextensions-controllers', 'crd-informer-synced'] },
  /** The system namespaces exist. */
  namespaces: { checks: ['start-system-namespaces-controller'] },
  /** The server has tried to publish the CAs of clients; admission may reject the ConfigMap. */
  clusterAuthentication: { checks: ['start-cluster-authentication-info-controller'], requiredResources: ['configmaps'] },
  /** The Lease of this server exists. */
  identityLease: { checks: ['start-kube-apiserver-identity-lease-controller'], requiredResources: ['leases'] },
  /** The expired Leases of other servers have been deleted. */
  identityLeaseCollector: { checks: ['start-kube-apiserver-identity-lease-garbage-collector'], requiredResources: ['leases'] },
  /** The server has tried to record the start of legacy token tracking; admission may reject the ConfigMap. */
  tokenTracking: { checks: ['start-legacy-token-tracking-controller'] },
  /** The priority classes of the system exist. */
  priorityClasses: { checks: ['scheduling/bootstrap-system-priority-classes'] },
  /** All bootstrap FlowSchemas and PriorityLevelConfigurations exist. */
  fairnessProducer: {
    checks: ['priority-and-fairness-config-producer'],
    requiredResources: ['flowschemas', 'prioritylevelconfigurations'],
  },
  /** The Service `kubernetes` has the address of this server. */
  bootstrap: { checks: ['bootstrap-controller'] },
  /** The ServiceCIDRs and the IPAddresses of Services have been reconciled once. */
  serviceCidrs: {
    checks: ['start-service-ip-repair-controllers', 'start-kubernetes-service-cidr-controller'],
    requiredResources: ['servicecidrs', 'ipaddresses'],
  },
  /** The aggregator routes the groups of all stored APIServices. It issues its client certificate when it first needs one. */
  aggregator: {
    checks: [
      'aggregator-reload-proxy-client-cert',
      'start-kube-aggregator-informers',
      'apiservice-status-local-available-controller',
      'apiservice-status-remote-available-controller',
      'apiservice-registration-controller',
      'apiservice-discovery-controller',
      'apiservice-openapi-controller',
      'apiservice-openapiv3-controller',
    ],
    requiredResources: ['apiservices', 'configmaps'],
  },
  /** The APIServices of all local groups exist. */
  apiServices: { checks: ['kube-apiserver-autoregistration', 'autoregister-completion'], requiredResources: ['apiservices', 'configmaps'] },
} as const satisfies Readonly<Record<string, ServerHook>>;
export type ServerHookName = keyof typeof serverHooks;

/** The hook before which upstream runs those of the authorizers. */
const firstAfterPlugins: ServerHookName = 'priorityClasses';

/** Checks whose name has no prefix upstream, although they report a post-start hook. */
const withoutPrefix: ReadonlySet<string> = new Set(['autoregister-completion']);
const checkName = (name: string): string => (withoutPrefix.has(name) ? name : `poststarthook/${name}`);

const healthy: Health = { healthy: true };
const notFinished: Health = { healthy: false, reason: 'not finished' };

/** Records which post-start hooks have completed. Each hook is a health check of /livez and /readyz under the name of upstream's hook. */
export class PostStartHooks {
  readonly #served: () => readonly Kind[];
  /** The names of hooks that plugins supply, such as `rbac/bootstrap-roles`. */
  readonly #pluginHooks: readonly string[];
  readonly #completedNames = new Set<string>();
  #onCompleted: () => void = () => undefined;

  constructor(served: () => readonly Kind[], pluginHooks: readonly string[] = []) {
    this.#served = served;
    this.#pluginHooks = pluginHooks;
  }

  /** Returns true if the server serves the resources that the hook requires. */
  applies(name: ServerHookName): boolean {
    const { requiredResources = [] }: ServerHook = serverHooks[name];
    return requiredResources.every((resource) => this.#served().some((kind) => kind.resource === resource && kind.version === 'v1'));
  }

  /** Marks a hook of the server as completed when `work` resolves. Rejects if `work` rejects; the hook is not completed then. */
  run(name: ServerHookName, work: Promise<unknown>): Promise<void> {
    return this.#run(serverHooks[name].checks, work);
  }

  /** Marks the hook of a plugin as completed when `work` resolves. Rejects if `work` rejects; the hook is not completed then. */
  runPluginHook(name: string, work: Promise<unknown>): Promise<void> {
    return this.#run([name], work);
  }

  /** Resolves when all hooks have completed. */
  whenCompleted(): Promise<void> {
    return new Promise((resolve) => {
      this.#onCompleted = () => {
        if (this.#names().every((name) => this.#completedNames.has(name))) resolve();
      };
      this.#onCompleted();
    });
  }

  checks(): readonly HealthCheck[] {
    return this.#names().map((name) => ({
      name: checkName(name),
      live: true,
      ready: true,
      check: () => (this.#completedNames.has(name) ? healthy : notFinished),
    }));
  }

  async #run(names: readonly string[], work: Promise<unknown>): Promise<void> {
    await work;
    for (const name of names) this.#completedNames.add(name);
    this.#onCompleted();
  }

  #names(): readonly string[] {
    return (Object.keys(serverHooks) as ServerHookName[]).flatMap((name): readonly string[] => {
      const checks = this.applies(name) ? serverHooks[name].checks : [];
      return name === firstAfterPlugins ? [...this.#pluginHooks, ...checks] : checks;
    });
  }
}
