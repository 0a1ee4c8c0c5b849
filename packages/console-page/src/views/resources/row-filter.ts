import { mergeRows, type RowChange } from '../../api/sorted-rows.ts';
import type { Row } from '../../api/table-store.ts';

/** The searched text of each row, in lower case. Rows never change, so that each is computed once. */
const contents = new WeakMap<Row, string>();

function contentOf(row: Row): string {
  let content = contents.get(row);
  if (content === undefined) {
    content = `${row.namespace}\n${row.cells.join('\n')}`.toLowerCase();
    contents.set(row, content);
  }
  return content;
}

/** Computes the searched text of rows before the first filter needs it. */
export function indexRows(rows: readonly Row[]): void {
  for (const row of rows) contentOf(row);
}

type Matches = (row: Row) => boolean;

const wordsOf = (filter: string): readonly string[] =>
  filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-');

function matcherOf(words: readonly string[]): Matches {
  const required = words.filter((word) => !word.startsWith('-'));
  const excluded = words.filter((word) => word.startsWith('-')).map((word) => word.slice(1));
  return (row) => {
    const content = contentOf(row);
    return required.every((word) => content.includes(word)) && !excluded.some((word) => content.includes(word));
  };
}

/** Returns true if each row that the words match is also matched by the earlier words: the user typed more. */
function isNarrower(words: readonly string[], earlier: readonly string[]): boolean {
  return earlier.every((before) =>
    before.startsWith('-') ? words.includes(before) : words.some((word) => !word.startsWith('-') && word.includes(before)),
  );
}

/** Returns the rows in which every word of the filter occurs in a cell or in the namespace; `-word` excludes rows. */
export const filterRows = (rows: readonly Row[], filter: string): readonly Row[] => {
  const words = wordsOf(filter);
  return words.length === 0 ? rows : rows.filter(matcherOf(words));
};

/** The filtered rows of one table. A longer filter searches the earlier result only, and a change of the table only the rows that changed. */
export class RowFilter {
  #rows: readonly Row[] = [];
  #words: readonly string[] = [];
  #result: readonly Row[] = [];

  /** @param change the change that led to `rows`, if it is known */
  apply(rows: readonly Row[], filter: string, change?: RowChange<Row>): readonly Row[] {
    const words = wordsOf(filter);
    const isSameFilter = words.length === this.#words.length && words.every((word, index) => word === this.#words[index]);
    if (rows === this.#rows && isSameFilter) return this.#result;
    this.#result = words.length === 0 ? rows : this.#search(rows, words, { isSameFilter, change });
    this.#rows = rows;
    this.#words = words;
    return this.#result;
  }

  #search(
    rows: readonly Row[],
    words: readonly string[],
    { isSameFilter, change }: { readonly isSameFilter: boolean; readonly change: RowChange<Row> | undefined },
  ): readonly Row[] {
    const matches = matcherOf(words);
    if (isSameFilter && change !== undefined && change.to === rows && change.from === this.#rows)
      return mergeRows(this.#result, { removed: change.removed, added: change.added.filter(matches) });
    if (rows === this.#rows && isNarrower(words, this.#words)) return this.#result.filter(matches);
    return rows.filter(matches);
  }
}
