import type { Rule } from './rule.ts';
import { isLeaving, isOver, nameOf, type Pod, type StoredObject } from '../model/stored-object.ts';

/** Uids are unique and immutable, generations never decrease, and a deletion is never undone. */
export function identity(): Rule {
  const assigned = new Set<string>();
  return function* ({ now, before }) {
    if (!now) return;
    const { metadata } = now;
    if (!before) {
      if (assigned.has(metadata.uid) && now.kind !== 'PodMetrics') yield `${nameOf(now)}: the uid ${metadata.uid} was used before`;
      assigned.add(metadata.uid);
      return;
    }
    const was = before.metadata;
    if (was.uid !== metadata.uid) yield `${nameOf(now)}: the uid changed in place from ${was.uid} to ${metadata.uid}`;
    if (was.creationTimestamp !== metadata.creationTimestamp) yield `${nameOf(now)}: creationTimestamp changed`;
    if ((metadata.generation ?? 0) < (was.generation ?? 0))
      yield `${nameOf(now)}: generation fell from ${was.generation} to ${metadata.generation}`;
    if (was.deletionTimestamp !== undefined) {
      if (metadata.deletionTimestamp === undefined) yield `${nameOf(now)}: was being deleted and no longer is`;
      else if (Date.parse(metadata.deletionTimestamp) > Date.parse(was.deletionTimestamp))
        yield `${nameOf(now)}: its deletion was postponed`;
      const added = metadata.finalizers?.filter((one) => !was.finalizers?.includes(one)) ?? [];
      if (added.length > 0) yield `${nameOf(now)}: got the finalizers ${added.join()} while it was being deleted`;
    }
    if (JSON.stringify(now) === JSON.stringify(before)) yield `${nameOf(now)}: written without a change`;
  };
}

/** A pod never changes its node, never leaves a terminal phase, and is not removed while it runs. */
export const podLife: Rule = function* ({ now, before }, { forced, world }) {
  if (before?.kind !== 'Pod') return;
  const was = before as Pod;
  const pod = now as Pod | undefined;
  if (!pod) {
    const runs = was.status?.containerStatuses?.some(({ state }) => state?.running !== undefined) === true;
    const { nodeName } = was.spec;
    if (!runs || nodeName === undefined || isOver(was) || forced.has(was.metadata.uid)) return;
    const node = [...world.kind('Node')].some(({ metadata }) => metadata.name === nodeName);
    if (node) yield `${nameOf(was)}: deleted while its containers run on ${nodeName}: ${JSON.stringify(was.status?.containerStatuses)}`;
    return;
  }
  if (was.spec.nodeName !== undefined && pod.spec.nodeName !== was.spec.nodeName)
    yield `${nameOf(pod)}: went from ${was.spec.nodeName} to ${pod.spec.nodeName}`;
  if (isOver(was) && pod.status?.phase !== was.status?.phase) yield `${nameOf(pod)}: was ${was.status?.phase} and is ${pod.status?.phase}`;
};

/** Nothing is created in a terminating namespace, and nothing is left of a deleted one. */
export const namespaces: Rule = function* ({ now, before, revision }, { world }) {
  if (!now && before?.kind === 'Namespace') {
    const left = [...world.inNamespace(before.metadata.name)].map(nameOf);
    if (left.length > 0) yield `Namespace ${before.metadata.name}: gone at ${revision}, and left ${left.slice(0, 8).join(', ')}`;
  }
  const { namespace } = now?.metadata ?? {};
  if (!now || before || namespace === undefined) return;
  const home = [...world.kind('Namespace')].find(({ metadata }) => metadata.name === namespace);
  if (!home) yield `${nameOf(now)}: created in a namespace that does not exist`;
};

/** Objects whose owners are gone are deleted; checked at rest. */
export function* orphans(world: { all(): Iterable<StoredObject>; byUid(uid: string): unknown }): Iterable<string> {
  for (const thing of world.all()) {
    const owners = thing.metadata.ownerReferences ?? [];
    if (owners.length > 0 && owners.every(({ uid }) => world.byUid(uid) === undefined))
      yield `${nameOf(thing)}: its owners are gone: ${owners.map(({ kind, name }) => `${kind} ${name}`).join(', ')}`;
    if (isLeaving(thing)) yield `${nameOf(thing)}: still leaving, for ${thing.metadata.finalizers?.join() ?? 'no finalizer'}`;
  }
}
