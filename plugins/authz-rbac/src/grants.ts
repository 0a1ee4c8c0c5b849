import type { ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject } from '@oarlock/api/types/rbac-v1';
import type { Identity } from '@oarlock/spi/authn';
import { CompiledRule } from './compiled-rule.ts';

/** The grant of a role to one subject of a binding. */
export interface Grant {
  /** The key of the role, as returned by `roleKey`. */
  readonly role: string;
  readonly binding: ClusterRoleBinding | RoleBinding;
  readonly subject: Subject;
  /** The reason of requests that the grant allows, once it has been needed. */
  reason: string | undefined;
}

export interface GrantQuery {
  readonly identity: Identity;
  /** The namespace; empty for requests across all namespaces and for cluster-scoped resources. */
  readonly namespace: string;
  /** Called for each binding of the user whose role does not exist. */
  readonly onMissingRole?: (grant: Grant) => void;
}
type GrantVisitor = (rules: readonly CompiledRule[], grant: Grant) => boolean;

type Grants = Map<string, Grant>; // by binding key
const accountPrefix = 'system:serviceaccount:';
const none: readonly CompiledRule[] = [];

const roleKey = ({ kind, name }: RoleRef, namespace: string) => (kind === 'ClusterRole' ? name : `${namespace}/${name}`);
const keyOf = ({ metadata }: Role | ClusterRole | RoleBinding) =>
  metadata?.namespace ? `${metadata.namespace}/${metadata.name ?? ''}` : (metadata?.name ?? '');

/** Returns the index key of a user, a group or a service account. */
function subjectKey({ kind, name, namespace = '' }: Subject, bindingNamespace: string): string | undefined {
  if (kind === 'User') return `u${name}`;
  if (kind === 'Group') return `g${name}`;
  const within = namespace === '' ? bindingNamespace : namespace;
  return kind === 'ServiceAccount' && within !== '' ? `a${within}/${name}` : undefined;
}

/** Returns the index key of the service account with a user name; undefined for other users. */
function accountKey(name: string): string | undefined {
  if (!name.startsWith(accountPrefix)) return undefined;
  const colon = name.indexOf(':', accountPrefix.length);
  if (colon <= accountPrefix.length || colon === name.length - 1 || name.includes(':', colon + 1)) return undefined;
  return `a${name.slice(accountPrefix.length, colon)}/${name.slice(colon + 1)}`;
}

const clusterScope = [''];

/** The index keys of users. Authenticators return the same object for the requests with the same credentials. */
const userKeys = new WeakMap<Identity, readonly string[]>();

/** Returns the index keys of a user: of its name, of its service account and of its groups. */
function keysOf(identity: Identity): readonly string[] {
  let keys = userKeys.get(identity);
  if (keys === undefined) {
    const { name, groups } = identity;
    const account = accountKey(name);
    keys = [`u${name}`, ...(account === undefined ? [] : [account]), ...groups.map((group) => `g${group}`)];
    userKeys.set(identity, keys);
  }
  return keys;
}

/**
 * An index of roles and bindings by subject and namespace. An authorization check visits only the bindings of the user's name and groups, in the
 * cluster and in one namespace. The index is updated incrementally.
 */
export class GrantIndex {
  readonly #roles = new Map<string, readonly CompiledRule[]>();
  /** The grants, keyed by namespace (empty for the cluster), subject and binding. */
  readonly #grants = new Map<string, Map<string, Grants>>();

  putRole(role: Role | ClusterRole): void {
    this.#roles.set(
      keyOf(role),
      (role.rules ?? []).map((rule) => new CompiledRule(rule)),
    );
  }
  removeRole(role: Role | ClusterRole): void {
    this.#roles.delete(keyOf(role));
  }

  putBinding(binding: ClusterRoleBinding | RoleBinding, old: ClusterRoleBinding | RoleBinding | undefined): void {
    if (old !== undefined) this.removeBinding(old);
    const namespace = binding.metadata?.namespace ?? '';
    const role = roleKey(binding.roleRef, namespace);
    let here = this.#grants.get(namespace);
    if (here === undefined) this.#grants.set(namespace, (here = new Map()));
    for (const subject of binding.subjects ?? []) {
      const key = subjectKey(subject, namespace);
      if (key === undefined) continue;
      let grants = here.get(key);
      if (grants === undefined) here.set(key, (grants = new Map()));
      if (!grants.has(keyOf(binding))) grants.set(keyOf(binding), { role, binding, subject, reason: undefined });
    }
  }
  removeBinding(binding: ClusterRoleBinding | RoleBinding): void {
    const namespace = binding.metadata?.namespace ?? '';
    const here = this.#grants.get(namespace);
    if (here === undefined) return;
    for (const subject of binding.subjects ?? []) {
      const key = subjectKey(subject, namespace);
      const grants = key === undefined ? undefined : here.get(key);
      if (key === undefined || grants === undefined) continue;
      grants.delete(keyOf(binding));
      if (grants.size === 0) here.delete(key);
    }
    if (here.size === 0) this.#grants.delete(namespace);
  }

  /** Returns the first grant for which `visit` returns true; undefined if there is none. Visits cluster-wide grants first. */
  find({ identity, namespace, onMissingRole: missing }: GrantQuery, visit: GrantVisitor): Grant | undefined {
    const keys = keysOf(identity);
    const scopes = namespace === '' ? clusterScope : ['', namespace];
    for (const scope of scopes) {
      const here = this.#grants.get(scope);
      if (here === undefined) continue;
      for (const key of keys) {
        const found = this.#among(here.get(key), visit, missing);
        if (found !== undefined) return found;
      }
    }
    return undefined;
  }

  #among(grants: Grants | undefined, visit: GrantVisitor, missing: GrantQuery['onMissingRole']): Grant | undefined {
    if (grants === undefined) return undefined;
    for (const grant of grants.values()) {
      const rules = this.#roles.get(grant.role);
      if (rules === undefined) missing?.(grant);
      if (visit(rules ?? none, grant)) return grant;
    }
    return undefined;
  }
}
