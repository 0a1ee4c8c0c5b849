import { stringifyExact } from '@oarlock/api/json/exact-json';
import { parseTime } from '@oarlock/api/values/time';
import type { CustomResourceColumnDefinition } from '@oarlock/api/types/apiextensions-v1';
import { defaultPrinter } from '../../endpoints/negotiation/table/cluster.ts';
import { humanDuration } from '../../endpoints/negotiation/table/duration.ts';
import type { TableCell, TableColumn, Printer } from '../../endpoints/negotiation/table/printer.ts';
import { compileJsonPath, type JsonPath } from './json-path.ts';

/** The total length of the paths of a version that are evaluated. The cells of further columns are empty. */
const maxPathsLength = 64 * 1024;
/** The maximum number of values that the paths of one row visit together. */
const maxRowVisits = 200_000;
/** The approximate maximum length of the texts of one row. Recursive descents find a value once for each object that it is nested in. */
const maxRowText = 4 * 1024 * 1024;

/** What the cells of one row may still use. */
interface RowBudget {
  readonly visits: { left: number };
  text: number;
}

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
    type,
  }));
  let compiled: readonly (JsonPath | undefined)[] | undefined;
  const [name] = defaultPrinter.columns;
  return {
    columns: [...(name === undefined ? [] : [name]), ...columns.map(({ head }) => head)],
    cells(object, now) {
      compiled ??= compilePaths(definitions);
      const budget: RowBudget = { visits: { left: maxRowVisits }, text: maxRowText };
      const cells = compiled.map((path, at) => cellOf(path?.(object, budget.visits) ?? [], columns[at]?.type ?? '', { now, budget }));
      return [object.metadata?.name ?? '', ...cells];
    },
  };
}

function compilePaths(definitions: readonly CustomResourceColumnDefinition[]): readonly (JsonPath | undefined)[] {
  let length = 0;
  return definitions.map(({ jsonPath }) => {
    length += jsonPath.length;
    return length <= maxPathsLength ? compileJsonPath(jsonPath) : undefined;
  });
}

function cellOf(
  values: readonly unknown[],
  type: string,
  { now, budget }: { readonly now: number; readonly budget: RowBudget },
): TableCell {
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
      return textsOf(values, budget).join(',');
    case 'date': {
      const at = typeof value === 'string' ? parseTime(value) : undefined;
      return at === undefined ? '<invalid>' : humanDuration(now - at);
    }
    default:
      return null;
  }
}

function textsOf(values: readonly unknown[], budget: RowBudget): readonly string[] {
  const texts: string[] = [];
  for (const value of values) {
    if (budget.text <= 0) break;
    const text = textOf(value);
    budget.text -= text.length + 1;
    texts.push(text);
  }
  return texts;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : stringifyExact(value));
