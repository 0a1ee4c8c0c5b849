import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, noOpinion, type Attributes, type Decision, type SubjectRules } from '@oarlock/spi/authz';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { z } from 'zod';
import { defaultObjects, type DefaultsOptions } from './default-objects.ts';
import { GrantIndex, type Grant } from './grants.ts';
import { reconcileDefaults } from './reconcile-defaults.ts';

/** Milliseconds after startup until the default roles are created, unless a request needs them earlier. */
const resyncMs = 500;
const retryFrom = 10;
const retryMost = 5_000;
/** Milliseconds of retry delay after which requests no longer wait for the default roles. */
const patience = 1_000;
const masters = 'system:masters';

/** Returns upstream's reason: `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`. */
function allowReason({ binding, subject }: Grant): string {
  const { kind = '', roleRef, metadata } = binding;
  const name = metadata?.namespace ? `${metadata.name ?? ''}/${metadata.namespace}` : (metadata?.name ?? '');
  const to = subject.kind === 'ServiceAccount' ? `${subject.name}/${subject.namespace || (metadata?.namespace ?? '')}` : subject.name;
  const what = kind === '' ? (metadata?.namespace ? 'RoleBinding' : 'ClusterRoleBinding') : kind;
  return `RBAC: allowed by ${what} ${JSON.stringify(name)} of ${roleRef.kind} ${JSON.stringify(roleRef.name)} to ${subject.kind} ${JSON.stringify(to)}`;
}

function evaluateGrants(index: GrantIndex, asked: Attributes): Decision {
  const missing = new Set<string>();
  const note = ({ binding: { roleRef } }: Grant) => {
    missing.add(`${roleRef.kind.toLowerCase()}.rbac.authorization.k8s.io ${JSON.stringify(roleRef.name)} not found`);
  };
  let grant: Grant | undefined;
  if (asked.kind === 'path') {
    const { verb, path } = asked;
    grant = index.find(asked.identity, '', (rules) => rules.some((rule) => rule.allowsPath(verb, path)), note);
  } else {
    const { verb, group, resource, subresource, namespace, name } = asked;
    const whole = subresource === '' ? resource : `${resource}/${subresource}`;
    const below = subresource === '' ? '' : `*/${subresource}`;
    grant = index.find(
      asked.identity,
      namespace,
      (rules) => {
        for (const rule of rules) if (rule.allows(verb, group, whole, below, name)) return true;
        return false;
      },
      note,
    );
  }
  if (grant !== undefined) return { decision: 'allow', reason: allowReason(grant) };
  if (missing.size === 0) return noOpinion;
  const all = [...missing];
  return { decision: 'no-opinion', reason: `RBAC: ${all.length === 1 ? (all[0] ?? '') : `[${all.join(', ')}]`}` };
}

function rulesOf(index: GrantIndex, identity: Identity, namespace: string): SubjectRules {
  const resources: PolicyRule[] = [];
  const paths: PolicyRule[] = [];
  index.find(identity, namespace, (rules, { binding }) => {
    for (const { rule } of rules) {
      if ((rule.resources?.length ?? 0) > 0) resources.push(rule);
      // a RoleBinding grants no non-resource URLs, which have no namespace
      if ((rule.nonResourceURLs?.length ?? 0) > 0 && !binding.metadata?.namespace) paths.push(rule);
    }
    return false;
  });
  return { resources, paths };
}

const parts = /^system:(?:kube-|oarlock:|serviceaccount:kube-system:)/;
const isPart = ({ name }: Identity): boolean => parts.test(name);

function defaultGrants(options: DefaultsOptions): GrantIndex {
  const index = new GrantIndex();
  const defaults = defaultObjects(options);
  for (const role of [...defaults.clusterRoles, ...defaults.roles]) index.putRole(role);
  for (const binding of [...defaults.clusterRoleBindings, ...defaults.roleBindings]) index.putBinding(binding, undefined);
  return index;
}

/** Role-based access control (RBAC) with Kubernetes' default roles. Decides by caches of roles and bindings; waits until they are synced. */
export default Authz.plugin({
  id: 'authz-rbac',
  declares: { bootstrapPolicy: true },
  config: z.strictObject({
    /** Creates and completes the default roles and bindings at startup. */
    defaults: z.boolean().default(true),
    /** Allows nodes to list pods, namespaces and policies, to enforce NetworkPolicies. Set by a composition with `policy`. */
    nodePolicies: z.boolean().default(false),
    /** Allows nodes to create local volumes. Set by a composition with `volume-csi`. */
    nodeVolumes: z.boolean().default(false),
  }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }, { clock, log, signal }) {
    const index = new GrantIndex();
    const caches = new Map<Resource, Informer>();
    const follow = <T extends KubeObject>(
      resource: Resource<T>,
      put: (object: T, old: T | undefined) => void,
      remove: (object: T) => void,
    ) => {
      const informer = informers.forResource(resource);
      informer.addEventHandler({ onAdd: (object) => put(object, undefined), onUpdate: put, onDelete: remove });
      caches.set(resource, informer as unknown as Informer);
    };
    const putRole = index.putRole.bind(index);
    const removeRole = index.removeRole.bind(index);
    const putBinding = index.putBinding.bind(index);
    const removeBinding = index.removeBinding.bind(index);
    follow(clusterRoles, putRole, removeRole);
    follow(roles, putRole, removeRole);
    follow(clusterRoleBindings, putBinding, removeBinding);
    follow(roleBindings, putBinding, removeBinding);

    let ready = false;
    let atFirst: GrantIndex | undefined;
    /** Decides by the default roles alone until the caches are synced, so that control plane components start before the roles are written. */
    const byDefault = (asked: Attributes): Decision => {
      if (!config.defaults || !isPart(asked.identity)) return noOpinion;
      return evaluateGrants((atFirst ??= defaultGrants(config)), asked);
    };
    const filled = async () => {
      await Promise.all([...caches.values()].map((informer) => informer.whenSynced(signal)));
    };
    /** Resolves when the caches contain every key. A key that is deleted meanwhile is removed by the next object that arrives. */
    const untilCached = (keys: ReadonlyMap<Resource, readonly string[]>) =>
      Promise.all(
        [...keys].map(([resource, wanted]) => {
          const cache = caches.get(resource);
          const open = new Set(wanted.filter((key) => cache?.get(key) === undefined));
          if (cache === undefined || open.size === 0) return undefined;
          return new Promise<void>((resolve) => {
            const off = cache.addEventHandler({
              onAdd({ metadata }) {
                open.delete(metadata?.namespace ? `${metadata.namespace}/${metadata.name ?? ''}` : (metadata?.name ?? ''));
                if (open.size > 0) return;
                resolve();
                queueMicrotask(() => off());
              },
            });
          });
        }),
      );
    const bringDefaults = async () => {
      for (let wait = retryFrom; ; wait = Math.min(wait * 2, retryMost)) {
        try {
          const keys = await reconcileDefaults(client, config, signal);
          await filled();
          await untilCached(keys);
          return;
        } catch (error) {
          if (signal.aborted) return;
          // the API server creates the namespaces of default roles concurrently
          if (wait > patience) {
            log.warn({ error: String(error), retryMs: wait }, 'creating the default roles failed; retrying');
            await filled();
            ready = true; // with the roles that exist
          }
          await clock.sleep(wait, signal).catch(() => undefined);
        }
      }
    };
    let opening: Promise<void> | undefined;
    const open = () =>
      (opening ??= (config.defaults ? bringDefaults() : filled()).then(
        () => {
          ready = true;
          atFirst = undefined;
        },
        (error: unknown) => {
          if (!signal.aborted) throw error;
        },
      ));
    return {
      async start() {
        // runs in the background, because the API server that it calls starts later; and with a delay, because only masters send requests during startup
        clock
          .sleep(resyncMs, signal)
          .then(open)
          .catch((error: unknown) => {
            if (!signal.aborted) log.error({ err: error }, 'reading roles and bindings failed');
          });
      },
      authorize(asked): Decision | Promise<Decision> {
        if (ready) return evaluateGrants(index, asked);
        // requests that fill the caches must not wait for them
        if (asked.identity.groups.includes(masters))
          return { decision: 'allow', reason: `RBAC: member of ${masters}, while roles are being read` };
        const early = byDefault(asked);
        return early.decision === 'allow' ? early : open().then(() => evaluateGrants(index, asked));
      },
      async rulesFor(identity, namespace) {
        if (!ready) await open();
        return rulesOf(index, identity, namespace);
      },
    };
  },
});
