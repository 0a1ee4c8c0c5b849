import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { AggregationRule, PolicyRule, RoleRef, Subject } from '@oarlock/api/types/rbac-v1';
import { jsonEqual } from '@oarlock/api/json/json';
import { uncoveredRules } from '@oarlock/api/rbac/policy-rules';
import type { Client } from '@oarlock/spi/client';
import { autoupdate, defaultObjects, type DefaultsOptions } from './default-objects.ts';

interface RoleLike extends KubeObject {
  readonly rules?: readonly PolicyRule[];
  readonly aggregationRule?: AggregationRule;
}
interface BindingLike extends KubeObject {
  readonly roleRef: RoleRef;
  readonly subjects?: readonly Subject[];
}

/** The maximum number of concurrent writes, which is limited so that other startup work is not delayed. */
const maxConcurrentWrites = 16;

/**
 * Reconciles the default roles and bindings: creates missing objects and adds missing rules, subjects, labels and annotations. Additions by users
 * are kept. Objects with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` are not changed.
 * @returns the keys of all default objects, by resource
 */
export async function reconcileDefaults(
  client: Client,
  options: DefaultsOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<Resource, readonly string[]>> {
  const defaults = defaultObjects(options);
  const keys = new Map<Resource, readonly string[]>();
  const kinds: readonly [Resource, readonly KubeObject[], Complete][] = [
    [clusterRoles, defaults.clusterRoles, reconcileRole],
    [clusterRoleBindings, defaults.clusterRoleBindings, reconcileBinding],
    [roles, defaults.roles, reconcileRole],
    [roleBindings, defaults.roleBindings, reconcileBinding],
  ];
  for (const [resource, objects, complete] of kinds) {
    const { items } = await client.list(resource, { signal });
    const found = new Map(items.map((item) => [keyOf(item), item]));
    const work = objects.filter((object) => needsWork(object, found.get(keyOf(object)), complete));
    const endpoint = { client, resource, complete, signal };
    for (let from = 0; from < work.length; from += maxConcurrentWrites)
      await Promise.all(
        work.slice(from, from + maxConcurrentWrites).map((object) => reconcileObject(endpoint, object, found.get(keyOf(object)))),
      );
    keys.set(resource, objects.map(keyOf));
  }
  return keys;
}

/** Returns the existing object with the missing parts added; the same object if nothing is missing; `replace` if it must be deleted and created. */
type Complete = (wanted: never, found: never) => KubeObject | 'replace';
interface Endpoint {
  readonly client: Client;
  readonly resource: Resource;
  readonly complete: Complete;
  readonly signal: AbortSignal;
}

const keyOf = ({ metadata }: KubeObject) => (metadata?.namespace ? `${metadata.namespace}/${metadata.name ?? ''}` : (metadata?.name ?? ''));
const isProtectedFromReconcile = ({ metadata }: KubeObject) => metadata?.annotations?.[autoupdate] === 'false';

function needsWork(object: KubeObject, found: KubeObject | undefined, complete: Complete): boolean {
  return found === undefined || (!isProtectedFromReconcile(found) && complete(object as never, found as never) !== found);
}

async function reconcileObject(
  { client, resource, complete, signal }: Endpoint,
  object: KubeObject,
  known: KubeObject | undefined,
): Promise<void> {
  const { namespace, name = '' } = object.metadata ?? {};
  let found = known;
  for (;;) {
    try {
      if (found === undefined) {
        await client.create(resource, object, { signal });
        return;
      }
      if (!needsWork(object, found, complete)) return;
      const next = complete(object as never, found as never);
      if (next === 'replace') {
        // roleRef is immutable: a changed role requires a new binding
        const { uid, resourceVersion } = found.metadata ?? {};
        await client.delete(resource, objectName(namespace, name), {
          preconditions: { ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) },
          signal,
        });
        found = undefined;
        continue;
      }
      await client.update(resource, next, { signal });
      return;
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists', 'Conflict') && !(isStatus(error, 'NotFound') && found !== undefined)) throw error;
      // another API server reconciles concurrently
      found = await client.get(resource, objectName(namespace, name), { signal }).catch((missing: unknown) => {
        if (isStatus(missing, 'NotFound')) return undefined;
        throw missing;
      });
    }
  }
}

const objectName = (namespace: string | undefined, name: string) => ({ ...(namespace !== undefined && { namespace }), name });

/** Returns the metadata with missing labels and annotations added; existing values win. Returns undefined if nothing is missing. */
function reconcileMetadata(wanted: KubeObject, found: KubeObject): KubeObject['metadata'] | undefined {
  const labels = { ...wanted.metadata?.labels, ...found.metadata?.labels };
  const annotations = { ...wanted.metadata?.annotations, ...found.metadata?.annotations };
  return jsonEqual(labels, found.metadata?.labels ?? {}) && jsonEqual(annotations, found.metadata?.annotations ?? {})
    ? undefined
    : { ...found.metadata, labels, annotations };
}

function reconcileRole(wanted: RoleLike, found: RoleLike): RoleLike {
  const metadata = reconcileMetadata(wanted, found);
  const selectors = wanted.aggregationRule?.clusterRoleSelectors ?? [];
  const present = found.aggregationRule?.clusterRoleSelectors ?? [];
  const lacking = selectors.filter((selector) => !present.some((known) => jsonEqual(known, selector)));
  // the rules of an aggregated role are computed by its controller
  const missing = selectors.length > 0 ? [] : uncoveredRules(found.rules ?? [], wanted.rules ?? []);
  if (metadata === undefined && lacking.length === 0 && missing.length === 0) return found;
  return {
    ...found,
    ...(metadata && { metadata }),
    ...(lacking.length > 0 && { aggregationRule: { clusterRoleSelectors: [...present, ...lacking] } }),
    ...(missing.length > 0 && { rules: [...(found.rules ?? []), ...missing] }),
  };
}

function reconcileBinding(wanted: BindingLike, found: BindingLike): BindingLike | 'replace' {
  const same = ({ kind, name }: RoleRef) => kind === wanted.roleRef.kind && name === wanted.roleRef.name;
  if (!same(found.roleRef)) return 'replace';
  const metadata = reconcileMetadata(wanted, found);
  const present = found.subjects ?? [];
  const equal = (a: Subject, b: Subject) => a.kind === b.kind && a.name === b.name && (a.namespace ?? '') === (b.namespace ?? '');
  const lacking = (wanted.subjects ?? []).filter((subject) => !present.some((known) => equal(known, subject)));
  if (metadata === undefined && lacking.length === 0) return found;
  return { ...found, ...(metadata && { metadata }), ...(lacking.length > 0 && { subjects: [...present, ...lacking] }) };
}
