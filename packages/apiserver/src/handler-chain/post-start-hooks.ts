import type { Kind } from '@oarlock/api/kinds';
import type { Health } from '@oarlock/spi/role';
import type { HealthCheck } from './health-endpoints.ts';

interface PostStartHook {
  /** The names of upstream's post-start hooks that this hook implements. Each name is a health check. */
  readonly checks: readonly string[];
  /** The resources that the server must serve for the hook to run. */
  readonly requiredResources: readonly string[];
}

/** The hooks that run after the server listens, in upstream's order. */
const hooks = {
  fairness: {
    checks: ['poststarthook/priority-and-fairness-config-consumer', 'poststarthook/priority-and-fairness-config-producer'],
    requiredResources: ['flowschemas', 'prioritylevelconfigurations'],
  },
  bootstrap: {
    checks: [
      'poststarthook/start-system-namespaces-controller',
      'poststarthook/scheduling/bootstrap-system-priority-classes',
      'poststarthook/bootstrap-controller',
    ],
    requiredResources: [],
  },
  serviceCidrs: { checks: ['poststarthook/start-kubernetes-service-cidr-controller'], requiredResources: ['servicecidrs', 'ipaddresses'] },
  aggregator: {
    checks: ['poststarthook/start-kube-aggregator-informers', 'poststarthook/apiservice-status-remote-available-controller'],
    requiredResources: ['apiservices', 'configmaps'],
  },
  clusterAuthentication: { checks: ['poststarthook/start-cluster-authentication-info-controller'], requiredResources: ['configmaps'] },
  apiServices: {
    checks: ['poststarthook/kube-apiserver-autoregistration', 'autoregister-completion'],
    requiredResources: ['apiservices', 'configmaps'],
  },
} as const satisfies Readonly<Record<string, PostStartHook>>;
export type PostStartHookName = keyof typeof hooks;

const healthy: Health = { healthy: true };
const notFinished: Health = { healthy: false, reason: 'not finished' };

/** Records which post-start hooks have completed. Each hook is a health check of /livez and /readyz, as upstream. */
export class PostStartHooks {
  readonly #served: () => readonly Kind[];
  readonly #done = new Set<PostStartHookName>();

  constructor(served: () => readonly Kind[]) {
    this.#served = served;
  }

  /** Returns true if the server serves the resources that the hook requires. */
  applies(name: PostStartHookName): boolean {
    return hooks[name].requiredResources.every((resource) =>
      this.#served().some((kind) => kind.resource === resource && kind.version === 'v1'),
    );
  }

  /** Marks the hook as completed when `work` resolves. Rejects if `work` rejects; the hook is not completed then. */
  async run(name: PostStartHookName, work: Promise<unknown>): Promise<void> {
    await work;
    this.#done.add(name);
  }

  checks(): readonly HealthCheck[] {
    return (Object.keys(hooks) as PostStartHookName[])
      .filter((name) => this.applies(name))
      .flatMap((name) =>
        hooks[name].checks.map((check) => ({
          name: check,
          live: true,
          ready: true,
          check: () => (this.#done.has(name) ? healthy : notFinished),
        })),
      );
  }
}
