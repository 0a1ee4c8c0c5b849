import { useMemo } from 'preact/hooks';
import type { KubeObject } from '../../api/client.ts';
import { useObjects } from '../../app/hooks.ts';
import type { StoreState } from '../../components/store-state.ts';
import { selectorText, type Pod, type Workload } from './workload-kinds.ts';

/** The pods of a workload that are followed, so that the page of a workload with tens of thousands of pods stays fast. */
export const maxOwnedPods = 1_000;

/** An object and the objects that it owns. */
export interface OwnedNode {
  readonly object: KubeObject;
  readonly children: readonly OwnedNode[];
}

/** Returns the objects below an owner as a tree, by their owner references. */
export function ownerTree(owner: KubeObject, candidates: readonly KubeObject[]): readonly OwnedNode[] {
  const byOwner = new Map<string, KubeObject[]>();
  for (const object of candidates)
    for (const { uid } of object.metadata.ownerReferences ?? []) {
      const owned = byOwner.get(uid);
      if (owned === undefined) byOwner.set(uid, [object]);
      else owned.push(object);
    }
  const seen = new Set([owner.metadata.uid]);
  const below = (uid: string): readonly OwnedNode[] =>
    (byOwner.get(uid) ?? [])
      .filter(({ metadata }) => !seen.has(metadata.uid) && seen.add(metadata.uid))
      .map((object) => ({ object, children: below(object.metadata.uid) }))
      .sort((a, b) => (a.object.metadata.name < b.object.metadata.name ? -1 : 1));
  return below(owner.metadata.uid);
}

/** Returns all pods of a tree. */
export const podsOf = (tree: readonly OwnedNode[]): readonly Pod[] =>
  tree.flatMap(({ object, children }) => [...(object.kind === 'Pod' ? [object as Pod] : []), ...podsOf(children)]);

const withKind = (objects: readonly KubeObject[], apiVersion: string, kind: string): readonly KubeObject[] =>
  objects.map((object) => ({ apiVersion, ...object, kind }));

export interface OwnedObjects {
  readonly tree: readonly OwnedNode[];
  readonly pods: readonly Pod[];
  /** The stores from which the tree is made. */
  readonly stores: readonly [StoreState, ...StoreState[]];
  /** True if the workload has more pods than the page follows. */
  readonly isCut: boolean;
}

/**
 * Follows the ReplicaSets, Jobs, ControllerRevisions and Pods of a workload. Selectors and a bound limit what is followed, because a namespace or a workload
 * may have many pods.
 */
export function useOwnedObjects(object: KubeObject): OwnedObjects {
  const { kind = '', metadata } = object;
  const namespace = encodeURIComponent(metadata.namespace ?? '');
  const { selector } = (object as Workload).spec ?? {};
  const isPod = kind === 'Pod';
  const isCronJob = kind === 'CronJob';
  const labelSelector = isPod || isCronJob || selector === undefined ? '' : selectorText(selector);
  const hasPods = isCronJob || (labelSelector !== '' && !isPod);
  const query = labelSelector === '' ? undefined : { labelSelector };
  const pods = useObjects<Pod>(hasPods ? `/api/v1/namespaces/${namespace}/pods` : '', query, { maxObjects: maxOwnedPods });
  const replicaSets = useObjects(kind === 'Deployment' ? `/apis/apps/v1/namespaces/${namespace}/replicasets` : '', query);
  const jobs = useObjects(isCronJob ? `/apis/batch/v1/namespaces/${namespace}/jobs` : '');
  const tree = useMemo(
    () =>
      ownerTree(object, [
        ...withKind(pods.items, 'v1', 'Pod'),
        ...withKind(replicaSets.items, 'apps/v1', 'ReplicaSet'),
        ...withKind(jobs.items, 'batch/v1', 'Job'),
      ]),
    [metadata.uid, pods.items, replicaSets.items, jobs.items],
  );
  return {
    tree,
    pods: isPod ? [object as Pod] : podsOf(tree),
    stores: [pods, replicaSets, jobs],
    isCut: pods.items.length >= maxOwnedPods,
  };
}
