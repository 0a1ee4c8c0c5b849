import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { AggregationRule, PolicyRule, RoleRef, Subject } from '@oarlock/api/types/rbac-v1';
import { jsonEqual } from '@oarlock/api/json';
import { uncovered } from '@oarlock/spi/authz-rules';
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

/** How many objects are written at a time: enough to be quick, few enough to leave the rest of a start its turns. */
const atOnce = 16;

/**
 * Brings the default roles and bindings about: what is missing is made, what lacks rules, subjects, labels or annotations is completed, and what somebody
 * has added stays. An object whose annotation `rbac.authorization.kubernetes.io/autoupdate` is `false` is left alone.
 * @returns the keys of all of them, by resource
 */
export async function reconcileDefaults(
  client: Client,
  options: DefaultsOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<Resource, readonly string[]>> {
  const wanted = defaultObjects(options);
  const done = new Map<Resource, readonly string[]>();
  const kinds: readonly [Resource, readonly KubeObject[], (wanted: never, found: never) => KubeObject | 'replace'][] = [
    [clusterRoles, wanted.clusterRoles, completedRole],
    [clusterRoleBindings, wanted.clusterRoleBindings, completedBinding],
    [roles, wanted.roles, completedRole],
    [roleBindings, wanted.roleBindings, completedBinding],
  ];
  for (const [resource, objects, complete] of kinds) {
    const { items } = await client.list(resource, { signal });
    const found = new Map(items.map((item) => [keyOf(item), item]));
    const work = objects.filter((object) => needsWork(object, found.get(keyOf(object)), complete));
    for (let from = 0; from < work.length; from += atOnce) {
      await Promise.all(
        work.slice(from, from + atOnce).map((object) => bring(client, resource, object, found.get(keyOf(object)), complete, signal)),
      );
    }
    done.set(resource, objects.map(keyOf));
  }
  return done;
}

type Complete = (wanted: never, found: never) => KubeObject | 'replace';

const keyOf = ({ metadata }: KubeObject) => (metadata?.namespace ? `${metadata.namespace}/${metadata.name ?? ''}` : (metadata?.name ?? ''));
const isLeftAlone = ({ metadata }: KubeObject) => metadata?.annotations?.[autoupdate] === 'false';

function needsWork(object: KubeObject, found: KubeObject | undefined, complete: Complete): boolean {
  return found === undefined || (!isLeftAlone(found) && complete(object as never, found as never) !== found);
}

async function bring(
  client: Client,
  resource: Resource,
  object: KubeObject,
  known: KubeObject | undefined,
  complete: Complete,
  signal: AbortSignal,
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
        // what a binding is to is decided once: another role needs another binding
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
      // another server is at it, too
      found = await client.get(resource, objectName(namespace, name), { signal }).catch((missing: unknown) => {
        if (isStatus(missing, 'NotFound')) return undefined;
        throw missing;
      });
    }
  }
}

const objectName = (namespace: string | undefined, name: string) => ({ ...(namespace !== undefined && { namespace }), name });

/** What is there wins over what is wanted; undefined when nothing is missing. */
function completedMetadata(wanted: KubeObject, found: KubeObject): KubeObject['metadata'] | undefined {
  const labels = { ...wanted.metadata?.labels, ...found.metadata?.labels };
  const annotations = { ...wanted.metadata?.annotations, ...found.metadata?.annotations };
  return jsonEqual(labels, found.metadata?.labels ?? {}) && jsonEqual(annotations, found.metadata?.annotations ?? {})
    ? undefined
    : { ...found.metadata, labels, annotations };
}

function completedRole(wanted: RoleLike, found: RoleLike): RoleLike {
  const metadata = completedMetadata(wanted, found);
  const selectors = wanted.aggregationRule?.clusterRoleSelectors ?? [];
  const present = found.aggregationRule?.clusterRoleSelectors ?? [];
  const lacking = selectors.filter((selector) => !present.some((known) => jsonEqual(known, selector)));
  // rules of an aggregated role are the business of those that it is made of
  const missing = selectors.length > 0 ? [] : uncovered(found.rules ?? [], wanted.rules ?? []);
  if (metadata === undefined && lacking.length === 0 && missing.length === 0) return found;
  return {
    ...found,
    ...(metadata && { metadata }),
    ...(lacking.length > 0 && { aggregationRule: { clusterRoleSelectors: [...present, ...lacking] } }),
    ...(missing.length > 0 && { rules: [...(found.rules ?? []), ...missing] }),
  };
}

function completedBinding(wanted: BindingLike, found: BindingLike): BindingLike | 'replace' {
  const same = ({ kind, name }: RoleRef) => kind === wanted.roleRef.kind && name === wanted.roleRef.name;
  if (!same(found.roleRef)) return 'replace';
  const metadata = completedMetadata(wanted, found);
  const present = found.subjects ?? [];
  const equal = (a: Subject, b: Subject) => a.kind === b.kind && a.name === b.name && (a.namespace ?? '') === (b.namespace ?? '');
  const lacking = (wanted.subjects ?? []).filter((subject) => !present.some((known) => equal(known, subject)));
  if (metadata === undefined && lacking.length === 0) return found;
  return { ...found, ...(metadata && { metadata }), ...(lacking.length > 0 && { subjects: [...present, ...lacking] }) };
}
