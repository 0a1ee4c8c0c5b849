import { scaledValue } from '@oarlock/api/values/int-or-string';
import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import { controllerOf, type KubeObject, type OwnerReference } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Deployment, ReplicaSet, StatefulSet } from '@oarlock/api/types/apps-v1';
import type { Pod, ReplicationController } from '@oarlock/api/types/core-v1';
import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import type { Client, Informer } from '@oarlock/spi/client';
import type { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { scaleResource, type Scale } from '../../discovery/scale-resource.ts';

export interface ExpectedPodCount {
  readonly expected: number;
  readonly desired: number;
  /** Pods without a controller, for which the expected number of pods is unknown. */
  readonly unmanaged: readonly Pod[];
}

export interface OwnerInformers {
  readonly sets: Informer<ReplicaSet>;
  readonly deployments: Informer<Deployment>;
  readonly statefulSets: Informer<StatefulSet>;
  readonly replicationControllers: Informer<ReplicationController>;
  readonly kinds: DiscoveredKinds;
}

const isPercent = (value: unknown): value is string => typeof value === 'string';

/** The pods that a budget selects, the kinds of their owners, and the client that reads scales. */
export interface ExpectedPodsSources {
  readonly pods: readonly Pod[];
  readonly owners: OwnerInformers;
  readonly client: Client;
}

/**
 * Returns the number of pods that a PodDisruptionBudget expects, and how many of these must be healthy.
 * @throws Error if the scale of an owner cannot be determined
 */
export async function expectedPods(budget: PodDisruptionBudget, { pods, owners, client }: ExpectedPodsSources): Promise<ExpectedPodCount> {
  const { maxUnavailable, minAvailable } = budget.spec ?? {};
  // as upstream, a budget with neither field expects no pods, and so allows no disruption
  if (maxUnavailable === undefined && minAvailable === undefined) return { expected: 0, desired: 0, unmanaged: [] };
  if (maxUnavailable === undefined && !isPercent(minAvailable))
    return { expected: pods.length, desired: Number(minAvailable), unmanaged: [] };
  const scales = new Map<string, number>();
  const seen = new Set<string>();
  const unmanaged: Pod[] = [];
  for (const pod of pods) {
    const ref = controllerOf(pod);
    if (ref === undefined) unmanaged.push(pod);
    else if (!seen.has(ref.uid)) {
      seen.add(ref.uid);
      const { uid, replicas } = await scaleOf(pod, { ref, owners, client });
      scales.set(uid, replicas);
    }
  }
  const expected = [...scales.values()].reduce((sum, replicas) => sum + replicas, 0);
  if (maxUnavailable !== undefined)
    return { expected, desired: Math.max(0, expected - scaledValue(maxUnavailable, expected, true)), unmanaged };
  return { expected, desired: scaledValue(minAvailable ?? 0, expected, true), unmanaged };
}

/** Returns the replicas of the pod's controller, or of the Deployment that owns this controller. */
async function scaleOf(
  pod: Pod,
  { ref, owners, client }: { readonly ref: OwnerReference; readonly owners: OwnerInformers; readonly client: Client },
): Promise<{ uid: string; replicas: number }> {
  const namespace = pod.metadata?.namespace ?? '';
  const { group } = parseApiVersion(ref.apiVersion);
  const is = (object: { readonly metadata?: KubeObject['metadata'] } | undefined, uid: string) => object?.metadata?.uid === uid;
  const key = `${namespace}/${ref.name}`;
  if (group === 'apps' && ref.kind === 'ReplicaSet') {
    const set = owners.sets.get(key);
    if (set !== undefined && is(set, ref.uid)) {
      const parent = controllerOf(set);
      const deployment = parent?.kind === 'Deployment' ? owners.deployments.get(`${namespace}/${parent.name}`) : undefined;
      if (parent !== undefined && deployment !== undefined && is(deployment, parent.uid))
        return { uid: parent.uid, replicas: deployment.spec?.replicas ?? 1 };
      return { uid: ref.uid, replicas: set.spec?.replicas ?? 1 };
    }
  }
  const known =
    group === 'apps' && ref.kind === 'StatefulSet'
      ? owners.statefulSets.get(key)
      : group === '' && ref.kind === 'ReplicationController'
        ? owners.replicationControllers.get(key)
        : undefined;
  if (known !== undefined && is(known, ref.uid)) return { uid: ref.uid, replicas: known.spec?.replicas ?? 1 };
  await owners.kinds.whenRead();
  const of = scaleResource(owners.kinds, ref.apiVersion, ref.kind);
  if (of === undefined) throw withoutScale(ref);
  const scale = await liveScale(of, { namespace, name: ref.name }, client);
  if (!is(scale, ref.uid)) throw new Error(`found no controllers for pod "${pod.metadata?.name ?? ''}"`);
  return { uid: ref.uid, replicas: scale?.spec?.replicas ?? 0 };
}

const implementsNoScale = (group: string, resource: string) =>
  new Error(`${group === '' ? resource : `${resource}.${group}`} does not implement the scale subresource`);

/** Returns the error for an owner of an unknown kind, or of a kind without the subresource `scale`. */
function withoutScale({ apiVersion, kind: name }: OwnerReference): Error {
  const { group, version } = parseApiVersion(apiVersion);
  const kind = kindOf({ group, version, kind: name });
  return kind === undefined
    ? new Error(`no matches for kind "${name}" in version "${apiVersion}"`)
    : implementsNoScale(group, kind.resource);
}

/**
 * Reads the scale of an owner. Returns undefined if the owner does not exist.
 * @throws Error if the kind has no subresource `scale`
 */
async function liveScale(
  of: Resource<Scale>,
  name: { readonly namespace: string; readonly name: string },
  client: Client,
): Promise<Scale | undefined> {
  try {
    return await client.get(of, name, { subresource: 'scale' });
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    // the API server names the object only if it serves the subresource
    if (error.status.details?.name === undefined) throw implementsNoScale(of.group, of.resource);
    return undefined;
  }
}
