import type { KubeObject } from '@oarlock/api/object';
import type { Lifecycle, Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { slotOf } from '@oarlock/kernel/plugin';
import type { Slot } from '@oarlock/kernel/slot';
import { Admission, reaches, type AdmissionPlugin, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Authn, type Authenticator, type AuthnResult } from '@oarlock/spi/authn';
import { Authz, type Authorizer, type Decision, type Rules } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { PluginThread, valueOf } from './plugin-thread.ts';
import type { Result } from './thread-protocol.ts';

export interface Isolation {
  /** What a thread imports to get the plugin. */
  readonly module: string;
  /** As it was written: the thread checks it itself. */
  readonly config: unknown;
  readonly deadlineMs: number;
  readonly memoryMiB: number;
}
export const defaultMemoryMiB = 128;

type Remote = (thread: PluginThread) => object;
const remotes = new Map<symbol, Remote>([
  [Admission.token, remoteAdmission],
  [Authn.token, remoteAuthn],
  [Authz.token, remoteAuthz],
]);
const reach: readonly Slot<unknown>[] = [Client, Informers, Events, Cluster];

/** What a plugin needs that does not reach into a thread. */
export function outOfReach(plugin: Plugin): readonly string[] {
  return Object.values(plugin.needs)
    .map((need) => slotOf(need).id)
    .filter((id) => !reach.some((slot) => slot.id === id));
}

/** The same plugin, in a thread of its own: one for the slots that requests wait for. */
export function isolated(plugin: Plugin, { module, config, deadlineMs, memoryMiB }: Isolation): Plugin {
  const remote = remotes.get(plugin.provides.token);
  if (remote === undefined) throw new Error(`${plugin.provides.id} does not run in threads`);
  return {
    ...plugin,
    needs: { client: Client, facts: Cluster },
    create(given, { name, dataDir, clock, log }: PluginContext): Lifecycle {
      const { client, facts } = given as { readonly client: Client; readonly facts: ClusterFacts };
      const thread = new PluginThread({ module, name, config, dataDir, facts, deadlineMs, memoryMiB, client, clock, log });
      return { ...remote(thread), start: () => thread.start(), stop: () => thread.stop() };
    },
  };
}

/** What can be said of a request in another thread; what it is told comes back with the answer. */
function remoteAdmission(thread: PluginThread): AdmissionPlugin {
  const ask = async (method: 'mutate' | 'validate', request: AdmissionRequest): Promise<Result> => {
    const { operation, resource, subresource, namespace, name, object, old, options, identity, dryRun, cause } = request;
    const plain = { operation, resource, subresource, namespace, name, object, old, options, identity, dryRun, cause };
    const result = await thread.call(method, [plain]);
    for (const warning of result.warnings) request.warn(warning);
    for (const [key, value] of result.annotations) request.annotate(key, value);
    return result;
  };
  return {
    matches: [{ resources: ['*'], operations: ['*'] }],
    idle: (operation, resource, subresource) => !reaches(thread.matches, { operation, resource, subresource }),
    mutate(request) {
      if (!thread.methods.includes('mutate') || request.object === undefined) return request.object ?? { allowed: true };
      const { object } = request;
      return ask('mutate', request).then((result) => (result.same === true ? object : (valueOf(result) as KubeObject | Verdict)));
    },
    validate(request) {
      if (!thread.methods.includes('validate')) return { allowed: true };
      return ask('validate', request).then((result) => valueOf(result) as Verdict);
    },
  };
}

function remoteAuthn(thread: PluginThread): Authenticator {
  return { authenticate: async (credentials) => valueOf(await thread.call('authenticate', [credentials])) as AuthnResult };
}

function remoteAuthz(thread: PluginThread): Authorizer {
  return {
    authorize: async (attributes) => valueOf(await thread.call('authorize', [attributes])) as Decision,
    rulesFor: async (identity, namespace): Promise<Rules> => {
      if (!thread.methods.includes('rulesFor')) return { resources: [], paths: [], incomplete: 'it cannot be listed' };
      return valueOf(await thread.call('rulesFor', [identity, namespace])) as Rules;
    },
  };
}
