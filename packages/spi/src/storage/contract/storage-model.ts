import type { Change, Entry, Revision, Write } from '../storage.ts';
import { bytewise, keyOf } from './harness.ts';

/** A reference model of the store, to which commits are applied in order of their revisions. */
export class StorageModel {
  readonly #from: Revision;
  readonly #states: { readonly revision: Revision; readonly entries: ReadonlyMap<string, Entry>; readonly changes: readonly Change[] }[];

  constructor(from: Revision) {
    this.#from = from;
    this.#states = [{ revision: from, entries: new Map(), changes: [] }];
  }

  get revision(): Revision {
    return this.#states.at(-1)?.revision ?? this.#from;
  }
  get revisions(): Revision[] {
    return this.#states.map((state) => state.revision);
  }

  /** Applies a commit. Returns true if it changed anything. */
  apply(writes: readonly Write[], revision: Revision): boolean {
    const entries = new Map(this.at(this.revision));
    const changes: Change[] = [];
    for (const { key, value } of writes) {
      const previous = entries.get(key);
      if (value !== null) {
        const entry: Entry = { key, value, revision, created: previous?.created ?? revision };
        entries.set(key, entry);
        changes.push({ type: 'put', entry, previous });
      } else if (previous) {
        entries.delete(key);
        changes.push({ type: 'delete', previous, revision });
      }
    }
    if (changes.length === 0) return false;
    if (revision <= this.revision) throw new Error(`revision ${revision} was used up: the store is at ${this.revision}`);
    this.#states.push({ revision, entries, changes });
    return true;
  }

  /**
   * Applies commits that ran concurrently. A commit that changed nothing has the revision of another commit that made its changes
   * already; so of two commits with the same revision, the one with more changes is applied first.
   */
  applyAll(commits: readonly { readonly writes: readonly Write[]; readonly revision: Revision }[]): void {
    const left = [...commits].sort((a, b) => a.revision - b.revision);
    const weight = ({ writes }: { readonly writes: readonly Write[] }) =>
      writes.filter(({ key, value }) => value !== null || this.at(this.revision).has(key)).length;
    while (left.length > 0) {
      const together = left.filter(({ revision }) => revision === left[0]?.revision);
      const next = together.reduce((most, each) => (weight(each) > weight(most) ? each : most));
      left.splice(left.indexOf(next), 1);
      this.apply(next.writes, next.revision);
    }
  }

  /** Returns the entries at a revision. */
  at(revision: Revision): ReadonlyMap<string, Entry> {
    let low = 0;
    for (let high = this.#states.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if ((this.#states[middle]?.revision ?? 0) <= revision) low = middle;
      else high = middle;
    }
    return this.#states[low]?.entries ?? new Map();
  }

  range(prefix: string, revision: Revision, after?: string): Entry[] {
    return [...this.at(revision).values()]
      .filter(({ key }) => key.startsWith(prefix) && (after === undefined || bytewise(key, after) > 0))
      .sort((a, b) => bytewise(a.key, b.key));
  }

  changes(prefix: string, after: Revision, upTo: Revision = Infinity): Change[] {
    return this.#states.flatMap((state) =>
      state.revision > after && state.revision <= upTo ? state.changes.filter((change) => keyOf(change).startsWith(prefix)) : [],
    );
  }
}
