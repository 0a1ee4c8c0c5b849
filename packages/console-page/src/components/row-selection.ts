/** The selected row of a table whose rows change: by its key, because rows before it come and go. */
export interface RowSelection {
  readonly key: string;
  /** Its position when it was selected. */
  readonly index: number;
}

/** Returns the position of the selected row; -1 if there is none, or if the row is gone. */
export function selectedIndex<R>(rows: readonly R[], keyOf: (row: R) => string, selection: RowSelection | undefined): number {
  if (selection === undefined) return -1;
  const { key, index } = selection;
  const same = rows[index];
  return same !== undefined && keyOf(same) === key ? index : rows.findIndex((row) => keyOf(row) === key);
}
