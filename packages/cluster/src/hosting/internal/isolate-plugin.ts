import type { KubeObject } from '@oarlock/api/object';
import type { Lifecycle, Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { slotOf } from '@oarlock/kernel/plugin';
import type { Slot } from '@oarlock/kernel/plugin';
import { Admission, matchesRules, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authn, type Authenticator, type AuthnResult } from '@oarlock/spi/authn';
import { Authz, type Authorizer, type Decision, type SubjectRules } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { PluginThread, unwrapResult } from '../thread/plugin-thread.ts';
import type { CallResult } from '../thread/thread-protocol.ts';

export interface Isolation {
  /** Module specifier that the worker thread imports to load the plugin. */
  readonly module: string;
  /** The plugin's config before validation; the worker thread validates the config. */
  readonly config: unknown;
  readonly deadlineMs: number;
  readonly memoryMiB: number;
}
export const defaultMemoryMiB = 128;

type ProxyFactory = (thread: PluginThread) => object;
const proxyFactories = new Map<symbol, ProxyFactory>([
  [Admission.token, admissionProxy],
  [Authn.token, authnProxy],
  [Authz.token, authzProxy],
]);
const supportedNeeds: readonly Slot<unknown>[] = [Client, Informers, Events, Cluster];

/** Returns the ids of the slots that the plugin needs and that are not available in a worker thread. */
export function unsupportedNeeds(plugin: Plugin): readonly string[] {
  return Object.values(plugin.needs)
    .map((need) => slotOf(need).id)
    .filter((id) => !supportedNeeds.some((slot) => slot.id === id));
}

/** Returns a plugin that runs in a worker thread. Only for slots whose plugins handle requests. */
export function isolatePlugin(plugin: Plugin, { module, config, deadlineMs, memoryMiB }: Isolation): Plugin {
  const proxyFactory = proxyFactories.get(plugin.provides.token);
  if (proxyFactory === undefined) throw new Error(`plugins of ${plugin.provides.id} cannot run in threads`);
  return {
    ...plugin,
    needs: { client: Client, facts: Cluster },
    create(dependencies, { name, dataDir, clock, log }: PluginContext): Lifecycle {
      const { client, facts } = dependencies as { readonly client: Client; readonly facts: ClusterFacts };
      const thread = new PluginThread({ module, name, config, dataDir, facts, deadlineMs, memoryMiB, client, clock, log });
      return { ...proxyFactory(thread), start: () => thread.start(), stop: () => thread.stop() };
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
    isIdle: (operation, resource, subresource) => !matchesRules(thread.matches, { operation, resource, subresource }),
    mutate(request) {
      if (!thread.methods.includes('mutate') || request.object === undefined) return request.object ?? { allowed: true };
      const { object } = request;
      return call('mutate', request).then((result) =>
        result.same === true ? object : (unwrapResult(result) as KubeObject | AdmissionDecision),
      );
    },
    validate(request) {
      if (!thread.methods.includes('validate')) return { allowed: true };
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
      if (!thread.methods.includes('rulesFor')) return { resources: [], paths: [], incomplete: 'the authorizer cannot list rules' };
      return unwrapResult(await thread.call('rulesFor', [identity, namespace])) as SubjectRules;
    },
  };
}
