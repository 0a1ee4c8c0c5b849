import { slotOf, type Lifecycle, type Plugin, type PluginContext } from '@oarlock/kernel/plugin';
import { spanContextOf } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import { Client, Events, type EventRecorderFactory } from '@oarlock/spi/client';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { Dns } from '@oarlock/spi/dns';
import { Network } from '@oarlock/spi/network';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling } from '@oarlock/spi/scheduling';
import { Volumes } from '@oarlock/spi/volume';
import type { Plan, PlannedPlugin } from '../composition/plan.ts';
import { serviceAccountOf } from '../cluster-file/controller-accounts.ts';
import { bootstrapPolicy } from '../cluster-file/bootstrap-policy.ts';
import { version } from '../process/version.ts';
import { reportMissingRules } from './missing-rules.ts';

/** A component of the process: the user as which it authenticates, and the user agent, which determines the field manager. */
export interface Component {
  readonly identity: Identity;
  readonly userAgent: string;
}

/** API access of one component. */
export interface ComponentAccess {
  readonly client: Client;
  readonly events: EventRecorderFactory;
}

const masters = 'system:masters';
const component = (name: string, program: string, groups: readonly string[] = []): Component => ({
  identity: { name, groups: [...groups, 'system:authenticated'] },
  userAgent: `${program}/${version}`,
});

/** The identity of the API server, for its own requests and for the informers that all components of the process share. */
export const apiServer = component('system:apiserver', 'kube-apiserver', [masters]);
const scheduler = component('system:kube-scheduler', 'kube-scheduler');
const proxy = component('system:kube-proxy', 'kube-proxy');
const dns = component('system:oarlock:dns', 'oarlock-dns');
/** The identity of volume provisioners. It is not the node's user, because provisioners write PersistentVolumes, which nodes must not. */
const volumes = component('system:oarlock:volumes', 'oarlock-volumes');
const controllerManager = component('system:kube-controller-manager', 'kube-controller-manager');

function kubelet({ plugins, nodeName: name }: Plan): Component {
  const role = plugins.find((planned) => planned.plugin.provides.token === Roles.token && planned.name === 'kubelet');
  const { nodeName = name, count } = (role?.config ?? {}) as { readonly nodeName?: string; readonly count?: number };
  // simulated nodes, which a count configures, have no name of their own
  return count === undefined
    ? component(`system:node:${nodeName}`, 'kubelet', ['system:nodes'])
    : component('system:oarlock:simulated-nodes', 'kubelet');
}

/** Returns the component of a controller plugin. */
function controller({ name }: PlannedPlugin): Component {
  const account = serviceAccountOf(name);
  if (account === undefined) return controllerManager;
  return component(`system:serviceaccount:kube-system:${account}`, 'kube-controller-manager', [
    'system:serviceaccounts',
    'system:serviceaccounts:kube-system',
  ]);
}

function componentOf(planned: PlannedPlugin, plan: Plan): Component | undefined {
  switch (planned.plugin.provides.token) {
    case Controllers.token:
      return controller(planned);
    case Scheduling.token:
      return scheduler;
    case Runtime.token:
    case Network.token:
      return kubelet(plan);
    case Volumes.token:
      return volumes;
    case Proxy.token:
      return proxy;
    case Dns.token:
      return dns;
    case Roles.token: {
      // the role `proxy` calls the API only for DNS
      const parts: Readonly<Record<string, Component>> = { controllers: controllerManager, scheduler, kubelet: kubelet(plan), proxy: dns };
      return Object.hasOwn(parts, planned.name) ? parts[planned.name] : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * Returns the plan in which each component has a client with its own identity, if the API server is in the same process. If no authorizer has the
 * bootstrap policy of RBAC, all components are members of `system:masters`.
 */
export function withComponentIdentities(plan: Plan, accessOf: (component: Component) => ComponentAccess): Plan {
  const hasBootstrapPolicy = plan.plugins.some(({ plugin }) => plugin.declares?.[bootstrapPolicy] === true);
  const accessByComponent = new Map<string, ComponentAccess>();
  const accessOnce = (part: Component): ComponentAccess => {
    const key = `${part.identity.name} ${part.userAgent}`;
    let access = accessByComponent.get(key);
    if (access === undefined) accessByComponent.set(key, (access = accessOf(hasBootstrapPolicy ? part : withMasters(part))));
    return access;
  };
  const plugins = plan.plugins.map((planned): PlannedPlugin => {
    const part = componentOf(planned, plan);
    if (part === undefined) return planned;
    const adapt = (plugin: Plugin) =>
      withComponentClient(plugin, ({ log }) => {
        const own = accessOnce(part);
        return hasDeclaredRules(planned) ? { ...own, client: reportMissingRules(own.client, { plugin, log }) } : own;
      });
    return { ...planned, plugin: adapt(planned.plugin), adapt };
  });
  return { ...plan, plugins };
}

/** Returns true if the permissions of a controller are those that its plugin declares. */
const hasDeclaredRules = ({ name, origin, plugin }: PlannedPlugin): boolean =>
  origin !== undefined && plugin.provides.token === Controllers.token && serviceAccountOf(name) === name;

const withMasters = ({ identity, userAgent }: Component): Component => ({
  identity: { ...identity, groups: [masters, ...identity.groups] },
  userAgent,
});

/** Returns a plugin that receives the component's client and events. */
function withComponentClient(plugin: Plugin, access: (context: PluginContext) => ComponentAccess): Plugin {
  const needed = (slot: { readonly token: symbol }) =>
    Object.entries(plugin.needs).flatMap(([key, need]) => (slotOf(need).token === slot.token ? [key] : []));
  const [clientKeys, eventsKeys] = [needed(Client), needed(Events)];
  const isController = plugin.provides.token === Controllers.token;
  if (clientKeys.length + eventsKeys.length === 0 && !isController) return plugin;
  return {
    ...plugin,
    create(dependencies, context) {
      const own = access(context);
      const replaced = Object.fromEntries([...clientKeys.map((key) => [key, own.client]), ...eventsKeys.map((key) => [key, own.events])]);
      const instance = plugin.create({ ...dependencies, ...replaced }, context);
      return isController ? withReconcileClient(instance as Controller & Lifecycle, own.client) : instance;
    },
  };
}

/** Returns a controller that reconciles with the component's client. */
function withReconcileClient(instance: Controller & Lifecycle, client: Client): Controller & Lifecycle {
  const { name, watches, concurrentReconciles: workers, toleratesMissingKinds: partial } = instance;
  return {
    name,
    watches,
    ...(workers !== undefined && { concurrentReconciles: workers }),
    ...(partial !== undefined && { toleratesMissingKinds: partial }),
    ...(instance.addDynamicWatches && { addDynamicWatches: (add) => instance.addDynamicWatches?.(add) ?? (() => undefined) }),
    ...(instance.start && { start: async (signal: AbortSignal) => instance.start?.(signal) }),
    ...(instance.stop && { stop: async () => instance.stop?.() }),
    reconcile: (key, context) => instance.reconcile(key, { ...context, client: client.withSpanContext(spanContextOf(context.span)) }),
  };
}
