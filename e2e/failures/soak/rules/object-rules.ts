import type { Rule } from './rule.ts';
import { isLeaving, isOver, nameOf, type Pod, type StoredObject } from '../model/stored-object.ts';

/** Uids are given once and kept, generations count, what is leaving stays so. */
export function identity(): Rule {
  const given = new Set<string>();
  return function* ({ now, before }) {
    if (!now) return;
    const { metadata } = now;
    if (!before) {
      if (given.has(metadata.uid) && now.kind !== 'PodMetrics') yield `${nameOf(now)}: the uid ${metadata.uid} was given before`;
      given.add(metadata.uid);
      return;
    }
    const was = before.metadata;
    if (was.uid !== metadata.uid) yield `${nameOf(now)}: the uid changed in place from ${was.uid} to ${metadata.uid}`;
    if (was.creationTimestamp !== metadata.creationTimestamp) yield `${nameOf(now)}: creationTimestamp changed`;
    if ((metadata.generation ?? 0) < (was.generation ?? 0))
      yield `${nameOf(now)}: generation fell from ${was.generation} to ${metadata.generation}`;
    if (was.deletionTimestamp !== undefined) {
      if (metadata.deletionTimestamp === undefined) yield `${nameOf(now)}: was leaving and no longer is`;
      else if (Date.parse(metadata.deletionTimestamp) > Date.parse(was.deletionTimestamp))
        yield `${nameOf(now)}: leaves later than it was to`;
      const added = metadata.finalizers?.filter((one) => !was.finalizers?.includes(one)) ?? [];
      if (added.length > 0) yield `${nameOf(now)}: leaves, and got the finalizers ${added.join()}`;
    }
    if (JSON.stringify(now) === JSON.stringify(before)) yield `${nameOf(now)}: written without a change`;
  };
}

/** A pod stays where it is, what is over stays over, and what runs is not forgotten. */
export const podLife: Rule = function* ({ now, before }, { forced, world }) {
  if (before?.kind !== 'Pod') return;
  const was = before as Pod;
  const pod = now as Pod | undefined;
  if (!pod) {
    const runs = was.status?.containerStatuses?.some(({ state }) => state?.running !== undefined) === true;
    const { nodeName } = was.spec;
    if (!runs || nodeName === undefined || isOver(was) || forced.has(was.metadata.uid)) return;
    const node = [...world.kind('Node')].some(({ metadata }) => metadata.name === nodeName);
    if (node) yield `${nameOf(was)}: gone while its containers run on ${nodeName}: ${JSON.stringify(was.status?.containerStatuses)}`;
    return;
  }
  if (was.spec.nodeName !== undefined && pod.spec.nodeName !== was.spec.nodeName)
    yield `${nameOf(pod)}: went from ${was.spec.nodeName} to ${pod.spec.nodeName}`;
  if (isOver(was) && pod.status?.phase !== was.status?.phase) yield `${nameOf(pod)}: was ${was.status?.phase} and is ${pod.status?.phase}`;
};

/** Nothing is made where everything leaves, and nothing is left when the namespace is gone. */
export const namespaces: Rule = function* ({ now, before, revision }, { world }) {
  if (!now && before?.kind === 'Namespace') {
    const left = [...world.inNamespace(before.metadata.name)].map(nameOf);
    if (left.length > 0) yield `Namespace ${before.metadata.name}: gone at ${revision}, and left ${left.slice(0, 8).join(', ')}`;
  }
  const { namespace } = now?.metadata ?? {};
  if (!now || before || namespace === undefined) return;
  const home = [...world.kind('Namespace')].find(({ metadata }) => metadata.name === namespace);
  if (!home) yield `${nameOf(now)}: made in a namespace that there is not`;
};

/** What belongs to something that is gone does not stay: looked at when all is quiet. */
export function* orphans(world: { all(): Iterable<StoredObject>; byUid(uid: string): unknown }): Iterable<string> {
  for (const thing of world.all()) {
    const owners = thing.metadata.ownerReferences ?? [];
    if (owners.length > 0 && owners.every(({ uid }) => world.byUid(uid) === undefined))
      yield `${nameOf(thing)}: its owners are gone: ${owners.map(({ kind, name }) => `${kind} ${name}`).join(', ')}`;
    if (isLeaving(thing)) yield `${nameOf(thing)}: still leaving, for ${thing.metadata.finalizers?.join() ?? 'no finalizer'}`;
  }
}
