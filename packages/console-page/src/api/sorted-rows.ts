/** A row with a key by which it is found, and an order. Rows never change: a changed row is another object. */
export interface KeyedRow {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
}

/** What distinguishes two versions of a sorted list. */
export interface RowChange<R> {
  readonly from: readonly R[];
  readonly to: readonly R[];
  /** Rows of `from` that are not in `to`. */
  readonly removed: ReadonlySet<R>;
  /** Rows of `to` that are not in `from`, sorted. */
  readonly added: readonly R[];
}

/** Compares by namespace and name. Rows of one name, such as those of several versions of an object, have a fixed order by uid. */
export const compareRows = (a: KeyedRow, b: KeyedRow): number =>
  compare(a.namespace, b.namespace) || compare(a.name, b.name) || compare(a.uid, b.uid);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Returns the sorted rows without `removed` and with `added`, in one pass. */
export function mergeRows<R extends KeyedRow>(
  rows: readonly R[],
  { removed, added }: Pick<RowChange<R>, 'removed' | 'added'>,
): readonly R[] {
  const [first] = added;
  const last = rows.at(-1);
  if (removed.size === 0 && first !== undefined && (last === undefined || compareRows(last, first) < 0)) return [...rows, ...added];
  // of the final length at once: a list that grows is copied several times
  const result = new Array<R>(rows.length + added.length);
  let [next, length] = [0, 0];
  for (const row of rows) {
    if (removed.size > 0 && removed.has(row)) continue;
    for (let each = added[next]; each !== undefined && compareRows(each, row) < 0; each = added[next]) {
      result[length++] = each;
      next += 1;
    }
    result[length++] = row;
  }
  for (; next < added.length; next += 1) result[length++] = added[next] as R;
  result.length = length;
  return result;
}

/**
 * Rows by uid, and their sorted list. Writes only note what changed; the list is brought up to date when it is read, by one pass for all changes, because
 * sorting tens of thousands of rows for each change takes longer than a frame.
 */
export class SortedRows<R extends KeyedRow> {
  readonly #rows = new Map<string, R>();
  /** The listed version of each row that has changed since; undefined for a row that was not listed. */
  readonly #changed = new Map<string, R | undefined>();
  #list: readonly R[] = [];
  #last: RowChange<R> | undefined;

  get size(): number {
    return this.#rows.size;
  }

  set(row: R): void {
    this.#note(row.uid);
    this.#rows.set(row.uid, row);
  }

  delete(uid: string): void {
    if (!this.#rows.has(uid)) return;
    this.#note(uid);
    this.#rows.delete(uid);
    // a row that was never listed leaves nothing behind, however long the list is not read
    if (this.#changed.get(uid) === undefined) this.#changed.delete(uid);
  }

  /** Replaces all rows. */
  replace(rows: ReadonlyMap<string, R>): void {
    for (const uid of [...this.#rows.keys()]) if (!rows.has(uid)) this.delete(uid);
    for (const row of rows.values()) this.set(row);
  }

  /** The rows, sorted. The same array until a row changes. */
  get list(): readonly R[] {
    if (this.#changed.size === 0) return this.#list;
    const removed = new Set<R>();
    const added: R[] = [];
    for (const [uid, listed] of this.#changed) {
      const row = this.#rows.get(uid);
      if (listed !== undefined) removed.add(listed);
      if (row !== undefined) added.push(row);
    }
    added.sort(compareRows);
    const from = this.#list;
    this.#list = mergeRows(from, { removed, added });
    this.#last = { from, to: this.#list, removed, added };
    this.#changed.clear();
    return this.#list;
  }

  /** The change that led to the current list, for lists that are derived from it. Undefined before the first one. */
  get lastChange(): RowChange<R> | undefined {
    return this.#last;
  }

  #note(uid: string): void {
    if (!this.#changed.has(uid)) this.#changed.set(uid, this.#rows.get(uid));
  }
}
