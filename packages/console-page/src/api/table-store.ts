import type { ApiClient, RequestOptions } from './client.ts';
import { newYield, whenIdle } from './idle.ts';
import { SortedRows, type RowChange } from './sorted-rows.ts';
import { readItems } from './streamed-items.ts';
import { reflect, type ConnectionState, type WatchEvent } from './watch.ts';

/** A column that the server defines for a resource. Columns with a priority above 0 are shown on wide screens only. */
export interface Column {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority: number;
}
/** A row of a table. Holds only what the page shows, because there may be tens of thousands. */
export interface Row {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  readonly createdAt: number;
  /** When the page received the row: the server computed the ages in its cells then. */
  readonly receivedAt: number;
  readonly isDeleted: boolean;
  readonly cells: readonly (string | number | boolean | null)[];
}

interface ServerRow {
  readonly cells: readonly (string | number | boolean | null)[];
  readonly object: {
    readonly metadata: {
      readonly name: string;
      readonly namespace?: string;
      readonly uid?: string;
      readonly resourceVersion?: string;
      readonly creationTimestamp?: string;
      readonly deletionTimestamp?: string;
    };
  };
}
export interface ServerTable {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string; readonly remainingItemCount?: number };
  /** Null in the tables of a watch, from the second on. */
  readonly columnDefinitions?: readonly Column[] | null;
  readonly rows?: readonly ServerRow[] | null;
}

/** The server's tables; JSON for servers that have no table of a resource. */
export const tableAccept = 'application/json;as=Table;g=meta.k8s.io;v=v1,application/json';
/** The rows of the first page, which fill a screen and arrive soon. */
const firstPageSize = 100;
const pageSize = 500;

const rowOf = ({ cells, object: { metadata } }: ServerRow, receivedAt: number): Row => ({
  uid: metadata.uid ?? `${metadata.namespace ?? ''}/${metadata.name}`,
  name: metadata.name,
  namespace: metadata.namespace ?? '',
  createdAt: Date.parse(metadata.creationTimestamp ?? ''),
  receivedAt,
  isDeleted: metadata.deletionTimestamp !== undefined,
  cells,
});

function rowsOf(rows: readonly ServerRow[]): readonly Row[] {
  const now = Date.now();
  return rows.map((row) => rowOf(row, now));
}

/** Returns the query of the first page of a table. */
export const firstPageQuery = (selectors: NonNullable<RequestOptions['query']> = {}): NonNullable<RequestOptions['query']> => ({
  ...selectors,
  limit: firstPageSize,
  continue: undefined,
});

/** A page of a table. */
interface TablePage {
  readonly table: Omit<ServerTable, 'rows'>;
  readonly rows: readonly Row[];
}

/** Returns the promise, whose rejection is reported when its value is needed. */
function reportedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

export interface TableStoreOptions {
  readonly client: ApiClient;
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Calls the function before the next paint; events until then are one change. */
  readonly schedule?: (work: () => void) => void;
  readonly reflectWith?: typeof reflect;
  /** Called with rows before they are shown, to prepare what views derive from them. */
  readonly onRows?: (rows: readonly Row[]) => void;
}

/**
 * The rows of one resource, kept up to date by a watch: listed in pages, sorted by namespace and name. The first page is shown at once; further pages are
 * processed while the browser is idle.
 */
export class TableStore {
  readonly #options: TableStoreOptions;
  readonly #listeners = new Set<() => void>();
  readonly #abort = new AbortController();
  readonly #rows = new SortedRows<Row>();
  #isScheduled = false;
  columns: readonly Column[] = [];
  state: ConnectionState = 'connecting';
  /** The reason of the state `reconnecting` or `stopped`. */
  reason = '';
  /** The number of objects that are not listed yet. */
  remaining = 0;
  /** How often everything was listed again because the watch could not be resumed. */
  relists = 0;
  /** True when the first list is complete. */
  hasSynced = false;

  constructor(options: TableStoreOptions) {
    this.#options = options;
  }

  /** Starts to list and watch. Returns a function that stops. */
  start(): () => void {
    const { client, path, reflectWith = reflect } = this.#options;
    void reflectWith<ServerTable>({
      client,
      path,
      query: this.#selectors(),
      accept: tableAccept,
      signal: this.#abort.signal,
      withoutManagedFields: true,
      list: (signal) => this.#list(signal),
      onEvent: (event) => this.apply(event),
      onState: (state, reason = '') => {
        this.state = state;
        this.reason = reason;
        this.#changed();
      },
    });
    return () => this.#abort.abort();
  }

  /** The rows, sorted. The same array until a row changes. */
  get rows(): readonly Row[] {
    return this.#rows.list;
  }

  /** The change that led to `rows`. */
  get lastChange(): RowChange<Row> | undefined {
    return this.#rows.lastChange;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Applies a watch event and returns the resource version of its object. */
  apply({ type, object }: WatchEvent<ServerTable>): string | undefined {
    this.#keepColumns(object);
    let version = object.metadata?.resourceVersion;
    const now = Date.now();
    for (const row of object.rows ?? []) {
      version = row.object.metadata.resourceVersion ?? version;
      if (type === 'BOOKMARK') continue;
      const own = rowOf(row, now);
      if (type === 'DELETED') this.#rows.delete(own.uid);
      else this.#rows.set(own);
    }
    this.#changed();
    return version === '' ? undefined : version;
  }

  #keepColumns({ columnDefinitions }: Pick<ServerTable, 'columnDefinitions'>): void {
    if (columnDefinitions && columnDefinitions.length > 0) this.columns = columnDefinitions;
  }

  #selectors(): NonNullable<RequestOptions['query']> {
    const { labelSelector, fieldSelector } = this.#options;
    return { labelSelector, fieldSelector };
  }

  /** Lists all pages. The first list shows each page at once; a later one replaces the rows when it is complete, so that none disappear meanwhile. */
  async #list(signal: AbortSignal): Promise<string> {
    const isFirst = this.#rows.size === 0;
    if (!isFirst) this.relists += 1;
    const listed = new Map<string, Row>();
    let pending = this.#firstPage(isFirst ? firstPageQuery(this.#selectors()) : this.#pageQuery(undefined), signal);
    let version: string;
    for (;;) {
      const { table, rows } = await pending;
      const next = table.metadata?.continue ?? '';
      // the server prepares the next page while this one is processed
      if (next !== '') pending = this.#page(this.#pageQuery(next), signal);
      this.#keepColumns(table);
      this.#options.onRows?.(rows);
      for (const row of rows)
        if (isFirst) this.#rows.set(row);
        else listed.set(row.uid, row);
      version = table.metadata?.resourceVersion ?? '';
      this.remaining = next === '' ? 0 : (table.metadata?.remainingItemCount ?? 0);
      if (isFirst) this.#changed();
      if (next === '') break;
      await whenIdle();
    }
    if (!isFirst) this.#rows.replace(listed);
    this.hasSynced = true;
    this.#changed();
    return version;
  }

  #pageQuery(next: string | undefined): NonNullable<RequestOptions['query']> {
    return { ...this.#selectors(), limit: pageSize, continue: next };
  }

  /** The page may have requested the first page before it needed it. */
  #firstPage(query: NonNullable<RequestOptions['query']>, signal: AbortSignal): Promise<TablePage> {
    return reportedLater(
      this.#options.client
        .json<ServerTable>(this.#options.path, { accept: tableAccept, query, signal })
        .then((table) => ({ table, rows: rowsOf(table.rows ?? []) })),
    );
  }

  #page(query: NonNullable<RequestOptions['query']>, signal: AbortSignal): Promise<TablePage> {
    const { client, path } = this.#options;
    const read = async (): Promise<TablePage> => {
      const response = await client.send(path, { accept: tableAccept, query, signal });
      const rows: Row[] = [];
      const now = Date.now();
      const onItem = (row: ServerRow) => void rows.push(rowOf(row, now));
      return {
        table: await readItems<ServerRow, ServerTable>(response, {
          field: 'rows',
          onItem,
          withoutManagedFields: true,
          pause: newYield(),
        }),
        rows,
      };
    };
    return reportedLater(read());
  }

  #changed(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    (this.#options.schedule ?? queueMicrotask)(() => {
      this.#isScheduled = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
