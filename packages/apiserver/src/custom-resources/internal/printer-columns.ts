import { stringifyExact } from '@oarlock/api/json/exact-json';
import { parseTime } from '@oarlock/api/values/time';
import type { CustomResourceColumnDefinition } from '@oarlock/api/types/apiextensions-v1';
import { defaultPrinter } from '../../endpoints/negotiation/table/cluster.ts';
import { humanDuration } from '../../endpoints/negotiation/table/duration.ts';
import type { TableCell, TableColumn, Printer } from '../../endpoints/negotiation/table/printer.ts';
import { compileJsonPath } from './json-path.ts';

/** Returns the table printer for the additionalPrinterColumns of a version. Without them, the columns are name and age. */
export function printerFromColumns(definitions: readonly CustomResourceColumnDefinition[] | undefined): Printer {
  if (definitions === undefined || definitions.length === 0) return defaultPrinter;
  const columns = definitions.map(({ name, type, format = '', description, priority = 0, jsonPath }) => ({
    head: {
      name,
      type: type as TableColumn['type'],
      format,
      description:
        description === undefined || description === ''
          ? `Custom resource definition column (in JSONPath format): ${jsonPath}`
          : description,
      priority: priority as TableColumn['priority'],
    } satisfies TableColumn,
    path: compileJsonPath(jsonPath),
    type,
  }));
  const [name] = defaultPrinter.columns;
  return {
    columns: [...(name === undefined ? [] : [name]), ...columns.map(({ head }) => head)],
    cells: (object, now) => [object.metadata?.name ?? '', ...columns.map(({ path, type }) => cellOf(path?.(object) ?? [], type, now))],
  };
}

function cellOf(values: readonly unknown[], type: string, now: number): TableCell {
  const [value] = values;
  if (values.length === 0 || value === undefined || value === null) return null;
  switch (type) {
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : typeof value === 'bigint' ? value : null;
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'string':
      return values.length === 1 ? textOf(value) : values.map(textOf).join(',');
    case 'date': {
      const at = typeof value === 'string' ? parseTime(value) : undefined;
      return at === undefined ? '<invalid>' : humanDuration(now - at);
    }
    default:
      return null;
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : stringifyExact(value));
