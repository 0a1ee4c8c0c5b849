import { controllerOf, objectKey, type ObjectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import { isActive, isReady, isTerminating } from '../pod-state.ts';

type Labels = Readonly<Record<string, string>>;

/** Pods of one owner that have the same labels. */
export interface PodGroup {
  readonly labels: Labels;
  /** All there are, those that have ended too. */
  readonly pods: number;
  readonly active: number;
  /** Active and ready. */
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

/** What a pod was counted as. */
interface Counted {
  readonly group: Counts;
  readonly active: boolean;
  readonly ready: boolean;
  readonly terminating: boolean;
}

const tallies = new WeakMap<Informer<Pod>, PodTally>();
const noLabels: Labels = Object.freeze({});
const none: readonly PodGroup[] = Object.freeze([]);

/** The same for all that ask about one informer. */
export function tallyOf(pods: Informer<Pod>): PodTally {
  let tally = tallies.get(pods);
  if (tally === undefined) tallies.set(pods, (tally = new PodTally(pods)));
  return tally;
}

/** How many pods each controller owns and in which state, kept up with what changes: an owner of ten thousand does not look at all of them for one. */
export class PodTally {
  /** By the uid of the owner and the text of the labels. Pods of one template are one group. */
  readonly #owners = new Map<string, Map<string, Counts>>();

  /** As the last event told of a deleted pod may differ from what was counted of it. */
  readonly #counted = new Map<ObjectKey, Counted>();

  constructor(pods: Informer<Pod>) {
    const put = (pod: Pod) => this.#put(pod);
    pods.on({ added: put, updated: put, deleted: (pod) => this.#become(objectKey(pod), undefined) });
  }

  /** The pods of the owner with this uid, as the informer knows them. */
  of(uid: string): readonly PodGroup[] {
    const groups = this.#owners.get(uid);
    return groups === undefined ? none : [...groups.values()];
  }

  #put(pod: Pod): void {
    const key = objectKey(pod);
    const uid = controllerOf(pod)?.uid;
    if (uid === undefined) {
      this.#become(key, undefined);
      return;
    }
    const labels = pod.metadata?.labels ?? noLabels;
    const before = this.#counted.get(key);
    const stays = before?.group.uid === uid && sameLabels(before.group.labels, labels);
    const active = isActive(pod);
    const ready = active && isReady(pod);
    const terminating = isTerminating(pod);
    if (stays && before.active === active && before.ready === ready && before.terminating === terminating) return;
    this.#become(key, { group: stays ? before.group : this.#group(uid, labels), active, ready, terminating });
  }

  #group(uid: string, labels: Labels): Counts {
    const text = textOf(labels);
    let groups = this.#owners.get(uid);
    if (groups === undefined) this.#owners.set(uid, (groups = new Map<string, Counts>()));
    let group = groups.get(text);
    if (group === undefined) groups.set(text, (group = { uid, labels, pods: 0, active: 0, ready: 0, terminating: 0 }));
    return group;
  }

  #become(key: ObjectKey, counted: Counted | undefined): void {
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

function count({ group, active, ready, terminating }: Counted, by: 1 | -1): void {
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
