import type { Column, Row } from '../../api/table-store.ts';
import { duration, parseDuration } from '../../components/age.ts';

/** The columns of events that contain ages. Their type is `string`; only columns of custom resources have the type `date`. */
const eventAges = new Set(['Last Seen', 'First Seen']);

/**
 * Returns how the cells of a column are shown. The server computed the ages in cells when it sent the row, so the page continues them: the age since the
 * creation from the object, and others from the cell. A custom column named Age can be anything else.
 */
export function cellTextOf(
  { name, type, description = '' }: Pick<Column, 'name' | 'type' | 'description'>,
  resource: string,
): (row: Row, cell: Row['cells'][number], now: number) => string {
  if (name === 'Age' && /creation/i.test(description))
    return (row, cell, now) => (Number.isNaN(row.createdAt) ? String(cell) : duration(now - row.createdAt));
  if (type !== 'date' && !(resource === 'events' && eventAges.has(name))) return (_, cell) => String(cell);
  return (row, cell, now) => {
    const age = parseDuration(String(cell));
    return age === undefined ? String(cell) : duration(age + now - row.receivedAt);
  };
}
