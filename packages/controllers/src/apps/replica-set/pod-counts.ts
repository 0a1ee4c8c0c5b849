import { controllerOf, objectKey, type ObjectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import { isActive, isPodTerminating, isReady } from '../../pods/pod-state.ts';

type Labels = Readonly<Record<string, string>>;

/** Counts of the pods of one owner that have the same labels. */
export interface PodCountGroup {
  readonly labels: Labels;
  /** Number of pods, including terminal pods. */
  readonly pods: number;
  readonly active: number;
  /** Number of active pods that are ready. */
  readonly ready: number;
  readonly terminating: number;
}

interface Counts {
  readonly uid: string;
  readonly labels: Labels;
  pods: number;
  active: number;
  ready: number;
  terminating: number;
}

/** The state in which a pod was last counted. */
interface CountedPod {
  readonly group: Counts;
  readonly active: boolean;
  readonly ready: boolean;
  readonly terminating: boolean;
}

const countsByInformer = new WeakMap<Informer<Pod>, PodCounts>();
const noLabels: Labels = Object.freeze({});
const noGroups: readonly PodCountGroup[] = Object.freeze([]);

/** Returns the pod counts of an informer; all callers share one instance. */
export function podCountsOf(pods: Informer<Pod>): PodCounts {
  let counts = countsByInformer.get(pods);
  if (counts === undefined) countsByInformer.set(pods, (counts = new PodCounts(pods)));
  return counts;
}

/**
 * Counts the pods of each controller by state. Informer events update the counts, so that a reconcile does not iterate over all pods of a
 * large owner.
 */
export class PodCounts {
  /** Counts keyed by owner uid, then by canonical label text. The pods of one template have the same labels. */
  readonly #owners = new Map<string, Map<string, Counts>>();

  /** The counted state by pod key; the state in a delete event may differ from the state that was counted. */
  readonly #counted = new Map<ObjectKey, CountedPod>();

  constructor(pods: Informer<Pod>) {
    const put = (pod: Pod) => this.#countPod(pod);
    pods.addEventHandler({ onAdd: put, onUpdate: put, onDelete: (pod) => this.#replaceCount(objectKey(pod), undefined) });
  }

  /** Returns the counts of the pods that the owner with this uid controls, one group per set of labels. */
  of(uid: string): readonly PodCountGroup[] {
    const groups = this.#owners.get(uid);
    return groups === undefined ? noGroups : [...groups.values()];
  }

  #countPod(pod: Pod): void {
    const key = objectKey(pod);
    const uid = controllerOf(pod)?.uid;
    if (uid === undefined) {
      this.#replaceCount(key, undefined);
      return;
    }
    const labels = pod.metadata?.labels ?? noLabels;
    const before = this.#counted.get(key);
    const stays = before?.group.uid === uid && sameLabels(before.group.labels, labels);
    const active = isActive(pod);
    const ready = active && isReady(pod);
    const terminating = isPodTerminating(pod);
    if (stays && before.active === active && before.ready === ready && before.terminating === terminating) return;
    this.#replaceCount(key, { group: stays ? before.group : this.#group(uid, labels), active, ready, terminating });
  }

  #group(uid: string, labels: Labels): Counts {
    const text = textOf(labels);
    let groups = this.#owners.get(uid);
    if (groups === undefined) this.#owners.set(uid, (groups = new Map<string, Counts>()));
    let group = groups.get(text);
    if (group === undefined) groups.set(text, (group = { uid, labels, pods: 0, active: 0, ready: 0, terminating: 0 }));
    return group;
  }

  #replaceCount(key: ObjectKey, counted: CountedPod | undefined): void {
    const before = this.#counted.get(key);
    if (counted === undefined) this.#counted.delete(key);
    else {
      this.#counted.set(key, counted);
      count(counted, 1);
    }
    if (before === undefined) return;
    count(before, -1);
    const { group } = before;
    if (group.pods > 0) return;
    const groups = this.#owners.get(group.uid);
    groups?.delete(textOf(group.labels));
    if (groups?.size === 0) this.#owners.delete(group.uid);
  }
}

function count({ group, active, ready, terminating }: CountedPod, by: 1 | -1): void {
  group.pods += by;
  if (active) group.active += by;
  if (ready) group.ready += by;
  if (terminating) group.terminating += by;
}

function sameLabels(a: Labels, b: Labels): boolean {
  if (a === b) return true;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

const textOf = (labels: Labels): string =>
  JSON.stringify(Object.keys(labels).length < 2 ? labels : Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
