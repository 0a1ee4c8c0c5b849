import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, noOpinion, type Attributes, type Decision, type Rules } from '@oarlock/spi/authz';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { z } from 'zod';
import { defaultObjects, type DefaultsOptions } from './default-objects.ts';
import { GrantIndex, type Grant } from './grants.ts';
import { reconcileDefaults } from './reconcile-defaults.ts';

/** How long a start is left alone before the default roles are made, unless somebody asks before who needs them. */
const restMs = 500;
const retryFrom = 10;
const retryMost = 5_000;
/** Milliseconds between attempts from which on the default roles are not waited for any more. */
const patience = 1_000;
const masters = 'system:masters';

/** `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`, as upstream says it. */
function ground({ binding, subject }: Grant): string {
  const { kind = '', roleRef, metadata } = binding;
  const name = metadata?.namespace ? `${metadata.name ?? ''}/${metadata.namespace}` : (metadata?.name ?? '');
  const to = subject.kind === 'ServiceAccount' ? `${subject.name}/${subject.namespace || (metadata?.namespace ?? '')}` : subject.name;
  const what = kind === '' ? (metadata?.namespace ? 'RoleBinding' : 'ClusterRoleBinding') : kind;
  return `RBAC: allowed by ${what} ${JSON.stringify(name)} of ${roleRef.kind} ${JSON.stringify(roleRef.name)} to ${subject.kind} ${JSON.stringify(to)}`;
}

function decide(index: GrantIndex, asked: Attributes): Decision {
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
  if (grant !== undefined) return { decision: 'allow', because: ground(grant) };
  if (missing.size === 0) return noOpinion;
  const all = [...missing];
  return { decision: 'no-opinion', because: `RBAC: ${all.length === 1 ? (all[0] ?? '') : `[${all.join(', ')}]`}` };
}

function rulesOf(index: GrantIndex, identity: Identity, namespace: string): Rules {
  const resources: PolicyRule[] = [];
  const paths: PolicyRule[] = [];
  index.find(identity, namespace, (rules, { binding }) => {
    for (const { rule } of rules) {
      if ((rule.resources?.length ?? 0) > 0) resources.push(rule);
      // what is granted in a namespace is not granted for paths, which are in none
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

/** Roles and bindings (RBAC), with the default ones of Kubernetes. Decides on caches of all of them; asked earlier, it waits until they are filled. */
export default Authz.plugin({
  id: 'authz-rbac',
  config: z.strictObject({
    /** Make and complete the default roles and bindings at start. */
    defaults: z.boolean().default(true),
    /** Nodes hold their pods to NetworkPolicies, and may list pods, namespaces and policies for it. A composition with `policy` sets it. */
    nodePolicies: z.boolean().default(false),
    /** Nodes make volumes that are on them alone. A composition with `volume-csi` sets it. */
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
      const informer = informers.of(resource);
      informer.on({ added: (object) => put(object, undefined), updated: put, deleted: remove });
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
    /** What parts of a control plane hold by the default roles; until the caches are filled, so that no start waits for those roles to be written. */
    const byDefault = (asked: Attributes): Decision => {
      if (!config.defaults || !isPart(asked.identity)) return noOpinion;
      return decide((atFirst ??= defaultGrants(config)), asked);
    };
    const filled = async () => {
      await Promise.all([...caches.values()].map((informer) => informer.whenSynced(signal)));
    };
    /** Until the caches show every one of them. A key that is taken away meanwhile is not waited for: the next object that comes asks again. */
    const shown = (keys: ReadonlyMap<Resource, readonly string[]>) =>
      Promise.all(
        [...keys].map(([resource, wanted]) => {
          const cache = caches.get(resource);
          const open = new Set(wanted.filter((key) => cache?.get(key) === undefined));
          if (cache === undefined || open.size === 0) return undefined;
          return new Promise<void>((resolve) => {
            const off = cache.on({
              added({ metadata }) {
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
          await shown(keys);
          return;
        } catch (error) {
          if (signal.aborted) return;
          // namespaces of default roles are made by the API server at the same time
          if (wait > patience) {
            log.warn({ error: String(error), retryMs: wait }, 'the default roles could not be made');
            await filled();
            ready = true; // with those that there are
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
        // not waited for: the API server, which this asks, starts later; and not at once, for nobody but masters asks while a cluster starts
        clock
          .sleep(restMs, signal)
          .then(open)
          .catch((error: unknown) => {
            if (!signal.aborted) log.error({ err: error }, 'roles and bindings could not be read');
          });
      },
      authorize(asked): Decision | Promise<Decision> {
        if (ready) return decide(index, asked);
        // whoever fills the caches cannot wait for them
        if (asked.identity.groups.includes(masters))
          return { decision: 'allow', because: `RBAC: member of ${masters}, while roles are being read` };
        const early = byDefault(asked);
        return early.decision === 'allow' ? early : open().then(() => decide(index, asked));
      },
      async rulesFor(identity, namespace) {
        if (!ready) await open();
        return rulesOf(index, identity, namespace);
      },
    };
  },
});
