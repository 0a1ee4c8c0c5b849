import type { KubeObject } from '@oarlock/api/object';
import type { Lifecycle, Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { slotOf } from '@oarlock/kernel/plugin';
import type { Slot } from '@oarlock/kernel/plugin';
import { Admission, matchesRules, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authn, type Authenticator, type AuthnResult } from '@oarlock/spi/authn';
import { Authz, type Authorizer, type Decision, type SubjectRules } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cloud, type CloudProvider } from '@oarlock/spi/cloud';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { Audit, type AuditSink } from '@oarlock/spi/audit';
import { Controllers, type Controller, type ControllerWatch, type ReconcileResult } from '@oarlock/spi/controller';
import { spanContextOf } from '@oarlock/kernel/tracing';
import { runningPlugin } from '@oarlock/kernel/plugin-health';
import type { Logger } from '@oarlock/primitives/logger';
import { withNeeds } from '../declared-needs.ts';
import type { CallLimits } from './call-limits.ts';
import type { Where } from '../thread/plugin-child.ts';
import { PluginThread, unwrapResult } from '../thread/plugin-thread.ts';
import { cloudMethods, cloudParts } from '../thread/thread-cloud.ts';
import type { CallResult } from '../thread/thread-protocol.ts';

export interface Isolation {
  /** Module specifier that the worker thread imports to load the plugin. */
  readonly module: string;
  /** The plugin's config before validation; the worker thread validates the config. */
  readonly config: unknown;
  readonly limits: CallLimits;
  readonly memoryMiB: number;
  readonly where: Where;
}
export const defaultMemoryMiB = 128;
/** Number of audit events that may wait for a plugin before further ones are dropped. */
const maxPendingEvents = 4_096;

type ProxyFactory = (thread: PluginThread, context: Pick<PluginContext, 'name' | 'log'> & Required<Pick<Plugin, 'declares'>>) => object;
const proxyFactories = new Map<symbol, ProxyFactory>([
  [Admission.token, admissionProxy],
  [Authn.token, authnProxy],
  [Authz.token, authzProxy],
  [Audit.token, (thread, { log }) => auditProxy(thread, log)],
  [Controllers.token, (thread, { name }) => controllerProxy(thread, name)],
  [Cloud.token, (thread, { name, declares }) => cloudProxy(thread, name, declares)],
]);
const supportedNeeds: readonly Slot<unknown>[] = [Client, Informers, Events, Cluster];

/**
 * Returns true if plugins of the slot can run in a thread or process of their own: their calls are asynchronous, their arguments can be copied, and
 * a new thread needs no state of the previous one.
 */
export const canBeIsolated = (slot: Slot<unknown>): boolean => proxyFactories.has(slot.token);

/** Returns the ids of the slots that the plugin needs and that are not available in a worker thread. */
export function unsupportedNeeds(plugin: Plugin): readonly string[] {
  return Object.values(plugin.needs)
    .map((need) => slotOf(need).id)
    .filter((id) => !supportedNeeds.some((slot) => slot.id === id));
}

/** Returns what a plugin must declare, because consumers need it before the thread runs; undefined if nothing is missing. */
export const missingDeclaration = ({ provides, declares }: Plugin): string | undefined =>
  provides.token === Cloud.token && !cloudParts.some((part) => declares?.[part] === true)
    ? `the parts of its provider, such as \`declares: { ${cloudParts[0]}: true }\``
    : undefined;

/** Returns a plugin that runs in a thread or process of its own. Only for slots for which `canBeIsolated` returns true. */
export function isolatePlugin(plugin: Plugin, { module, config, limits, memoryMiB, where }: Isolation): Plugin {
  const proxyFactory = proxyFactories.get(plugin.provides.token);
  if (proxyFactory === undefined) throw new Error(`plugins of ${plugin.provides.id} cannot run in threads`);
  return {
    ...withNeeds(plugin, { client: Client, facts: Cluster }),
    create(dependencies, { name, dataDir, clock, log }: PluginContext): Lifecycle {
      const { client, facts } = dependencies as { readonly client: Client; readonly facts: ClusterFacts };
      const thread = new PluginThread({ module, name, config, dataDir, facts, limits, memoryMiB, where, client, clock, log });
      const proxy = proxyFactory(thread, { name, log, declares: plugin.declares ?? {} });
      return { ...proxy, start: () => thread.start(), stop: () => thread.stop() };
    },
  };
}

/** Returns an admission plugin that sends the serializable part of requests to the worker thread. The result contains warnings and annotations. */
function admissionProxy(thread: PluginThread): AdmissionPlugin {
  const call = async (method: 'mutate' | 'validate', request: AdmissionRequest): Promise<CallResult> => {
    const { operation, resource, subresource, namespace, name, object, old, options, identity, dryRun, spanContext } = request;
    const plain = { operation, resource, subresource, namespace, name, object, old, options, identity, dryRun, spanContext };
    const result = await thread.call(method, [plain]);
    for (const warning of result.warnings) request.warn(warning);
    for (const [key, value] of result.annotations) request.annotate(key, value);
    return result;
  };
  return {
    matches: [{ resources: ['*'], operations: ['*'] }],
    isIdle: (operation, resource, subresource) => !matchesRules(thread.facts.matches, { operation, resource, subresource }),
    mutate(request) {
      if (!thread.facts.methods.includes('mutate') || request.object === undefined) return request.object ?? { allowed: true };
      const { object } = request;
      return call('mutate', request).then((result) =>
        result.same === true ? object : (unwrapResult(result) as KubeObject | AdmissionDecision),
      );
    },
    validate(request) {
      if (!thread.facts.methods.includes('validate')) return { allowed: true };
      return call('validate', request).then((result) => unwrapResult(result) as AdmissionDecision);
    },
  };
}

function authnProxy(thread: PluginThread): Authenticator {
  return { authenticate: async (credentials) => unwrapResult(await thread.call('authenticate', [credentials])) as AuthnResult };
}

function authzProxy(thread: PluginThread): Authorizer {
  return {
    authorize: async (attributes) => unwrapResult(await thread.call('authorize', [attributes])) as Decision,
    rulesFor: async (identity, namespace): Promise<SubjectRules> => {
      if (!thread.facts.methods.includes('rulesFor')) return { resources: [], paths: [], incomplete: 'the authorizer cannot list rules' };
      return unwrapResult(await thread.call('rulesFor', [identity, namespace])) as SubjectRules;
    },
  };
}

/** Does not wait for the plugin: an event that it has not taken is dropped when too many wait. */
function auditProxy(thread: PluginThread, log: Logger): AuditSink {
  const health = runningPlugin();
  let pending = 0;
  let dropped = 0;
  return {
    record(event) {
      if (pending >= maxPendingEvents) {
        if (dropped++ === 0) log.warn({ pending }, 'audit events are dropped, because the plugin is too slow');
        return;
      }
      pending += 1;
      void thread
        .call('record', [event])
        .then((result) => {
          // no guard sees the result of a call that returns at once
          if (result.error !== undefined) health?.report('error', new Error(result.error.message));
          unwrapResult(result);
        })
        .catch((error: unknown) => log.error({ err: error }, 'an audit event was lost'))
        .finally(() => {
          pending -= 1;
          if (pending > 0 || dropped === 0) return;
          log.warn({ dropped }, 'audit events were dropped');
          dropped = 0;
        });
    },
  };
}

/** Returns a controller whose watches run in the thread, which sends the keys to reconcile. A new thread sends the keys of all objects again. */
function controllerProxy(thread: PluginThread, name: string): Controller {
  return {
    name: name.replace(/^controller-/, ''),
    watches: [],
    addDynamicWatches(add) {
      const remove = add(keySource(thread));
      thread.subscribe(true);
      return () => {
        thread.subscribe(false);
        remove();
      };
    },
    reconcile: async (key, { span, failures }) =>
      unwrapResult(await thread.call('reconcile', [key, { failures, spanContext: spanContextOf(span) }])) as ReconcileResult | undefined,
  };
}

/** Returns a provider with the parts that the plugin declares. The thread passes its own signal to the calls. */
function cloudProxy(thread: PluginThread, name: string, declares: NonNullable<Plugin['declares']>): CloudProvider {
  const call =
    (method: string, count: number) =>
    async (...args: readonly unknown[]) =>
      unwrapResult(await thread.call(method, args.slice(0, count)));
  const parts = cloudParts.flatMap((part) => {
    if (declares[part] !== true) return [];
    const methods = Object.entries(cloudMethods[part]).map(([method, count]) => [method, call(`${part}.${method}`, count)]);
    const balancerClass = { get: () => thread.facts.loadBalancerClass, enumerable: true };
    return [[part, Object.defineProperty(Object.fromEntries(methods), 'class', balancerClass)]];
  });
  return { name, ...Object.fromEntries(parts) } as CloudProvider;
}

/** Returns a watch whose "objects" are the keys that the thread sends. */
function keySource(thread: PluginThread): ControllerWatch {
  const informer: Pick<ControllerWatch['informer'], 'hasSynced' | 'whenSynced' | 'refresh' | 'addEventHandler'> = {
    hasSynced: true,
    whenSynced: async () => {},
    refresh: async () => {},
    addEventHandler(handler) {
      thread.onKeys = (keys, spanContext) => {
        for (const key of keys) handler.onAdd?.({ key } as unknown as KubeObject, spanContext);
      };
      return () => {
        thread.onKeys = undefined;
      };
    },
  };
  return { informer: informer as ControllerWatch['informer'], keys: (object) => [(object as unknown as { readonly key: string }).key] };
}
