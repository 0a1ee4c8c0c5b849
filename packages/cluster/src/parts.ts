import { slotOf, type Lifecycle, type Plugin } from '@oarlock/kernel/plugin';
import { causeOf } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import { Client, Events, type EventSource } from '@oarlock/spi/client';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { Dns } from '@oarlock/spi/dns';
import { Network } from '@oarlock/spi/network';
import { Proxy } from '@oarlock/spi/proxy';
import { Roles } from '@oarlock/spi/role';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling } from '@oarlock/spi/scheduling';
import { Volumes } from '@oarlock/spi/volume';
import type { Plan, Planned } from './plan.ts';
import { accountOf } from './controller-accounts.ts';
import { version } from './version.ts';

/** Who a part of a process is towards the API server of the same process, and what it calls itself: its field manager comes from there. */
export interface Part {
  readonly identity: Identity;
  readonly userAgent: string;
}

/** What a part asks with. */
export interface PartAccess {
  readonly client: Client;
  readonly events: EventSource;
}

const masters = 'system:masters';
const user = (name: string, program: string, groups: readonly string[] = []): Part => ({
  identity: { name, groups: [...groups, 'system:authenticated'] },
  userAgent: `${program}/${version}`,
});

/** The API server's own: what it reads and writes for itself, and the caches that all parts of the process read from. */
export const apiServer = user('system:apiserver', 'kube-apiserver', [masters]);
const scheduler = user('system:kube-scheduler', 'kube-scheduler');
const proxy = user('system:kube-proxy', 'kube-proxy');
const dns = user('system:oarlock:dns', 'oarlock-dns');
/** Not the node's: who provisions writes PersistentVolumes, which no node may. */
const volumes = user('system:oarlock:volumes', 'oarlock-volumes');
const controllerManager = user('system:kube-controller-manager', 'kube-controller-manager');

function kubelet({ plugins, nodeName: name }: Plan): Part {
  const role = plugins.find((planned) => planned.plugin.provides.token === Roles.token && planned.name === 'kubelet');
  const { nodeName = name, count } = (role?.config ?? {}) as { readonly nodeName?: string; readonly count?: number };
  // one that stands for nodes with numbers is none of them
  return count === undefined
    ? user(`system:node:${nodeName}`, 'kubelet', ['system:nodes'])
    : user('system:oarlock:simulated-nodes', 'kubelet');
}

/** One that is not ours holds what `oarlock:plugins` gives, as long as nobody takes it away. */
function controller({ plugin, name, from }: Planned): Part {
  const account = from === undefined ? accountOf(plugin.id) : name;
  if (account === undefined) return controllerManager;
  const groups = [
    'system:serviceaccounts',
    'system:serviceaccounts:kube-system',
    ...(from === undefined ? [] : ['system:oarlock:plugins']),
  ];
  return user(`system:serviceaccount:kube-system:${account}`, 'kube-controller-manager', groups);
}

function partOf(planned: Planned, plan: Plan): Part | undefined {
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
      // the role `proxy` asks for nothing but on behalf of the DNS
      const parts: Readonly<Record<string, Part>> = { controllers: controllerManager, scheduler, kubelet: kubelet(plan), proxy: dns };
      return Object.hasOwn(parts, planned.name) ? parts[planned.name] : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * A plan whose parts ask as who they are, where the API server is in the same process. Without RBAC nobody would know what those may do: then all are
 * members of `system:masters`.
 */
export function asParts(plan: Plan, accessOf: (part: Part) => PartAccess): Plan {
  const known = plan.plugins.some(({ plugin }) => plugin.id === 'authz-rbac');
  const made = new Map<string, PartAccess>();
  const accessOnce = (part: Part): PartAccess => {
    const key = `${part.identity.name} ${part.userAgent}`;
    let access = made.get(key);
    if (access === undefined) made.set(key, (access = accessOf(known ? part : withMasters(part))));
    return access;
  };
  const plugins = plan.plugins.map((planned): Planned => {
    const part = partOf(planned, plan);
    if (part === undefined) return planned;
    const adapt = (plugin: Plugin) => asking(plugin, () => accessOnce(part));
    return { ...planned, plugin: adapt(planned.plugin), adapt };
  });
  return { ...plan, plugins };
}

const withMasters = ({ identity, userAgent }: Part): Part => ({
  identity: { ...identity, groups: [masters, ...identity.groups] },
  userAgent,
});

/** The same plugin, given another client and other events. */
function asking(plugin: Plugin, access: () => PartAccess): Plugin {
  const needed = (slot: { readonly token: symbol }) =>
    Object.entries(plugin.needs).flatMap(([key, need]) => (slotOf(need).token === slot.token ? [key] : []));
  const [clients, events] = [needed(Client), needed(Events)];
  const controls = plugin.provides.token === Controllers.token;
  if (clients.length + events.length === 0 && !controls) return plugin;
  return {
    ...plugin,
    create(given, context) {
      const own = access();
      const other = Object.fromEntries([...clients.map((key) => [key, own.client]), ...events.map((key) => [key, own.events])]);
      const made = plugin.create({ ...given, ...other }, context);
      return controls ? reconciling(made as Controller & Lifecycle, own.client) : made;
    },
  };
}

/** The same controller; it reconciles with a client of its own. */
function reconciling(made: Controller & Lifecycle, client: Client): Controller & Lifecycle {
  const { name, watches, workers, partial } = made;
  return {
    name,
    watches,
    ...(workers !== undefined && { workers }),
    ...(partial !== undefined && { partial }),
    ...(made.follow && { follow: (add) => made.follow?.(add) ?? (() => undefined) }),
    ...(made.start && { start: async (signal: AbortSignal) => made.start?.(signal) }),
    ...(made.stop && { stop: async () => made.stop?.() }),
    reconcile: (key, context) => made.reconcile(key, { ...context, client: client.causedBy(causeOf(context.span)) }),
  };
}
