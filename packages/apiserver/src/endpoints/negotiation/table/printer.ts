import type { KubeObject } from '@oarlock/api/object';

export type TableCell = string | number | bigint | boolean | null;

/** The definition of a table column (`TableColumnDefinition` of meta.k8s.io). kubectl shows columns of priority 1 only with `-o wide`. */
export interface TableColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  readonly format: string;
  readonly description: string;
  readonly priority: 0 | 1;
}

export interface TableRowCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/**
 * Prints the objects of one kind as table rows. Cells may contain ages, which are computed for the time `now` in milliseconds since the Unix epoch.
 */
export interface Printer<T extends KubeObject = KubeObject> {
  readonly columns: readonly TableColumn[];
  cells(object: T, now: number): readonly TableCell[];
  conditions?(object: T): readonly TableRowCondition[];
}

export interface ColumnDefinition {
  readonly name: string;
  readonly wide?: boolean;
  readonly type?: TableColumn['type'];
  /** By default `name` for the column Name, and none for other columns. */
  readonly format?: string;
  readonly description?: string;
}

/** Returns column definitions for names. The column Name has the format `name`, by which clients find the name of the object. */
export function columnsOf(...definitions: readonly (string | ColumnDefinition)[]): readonly TableColumn[] {
  return definitions.map((definition) => {
    const {
      name,
      wide = false,
      type = 'string',
      format = name === 'Name' ? 'name' : '',
      description: about,
    } = typeof definition === 'string' ? ({ name: definition } as ColumnDefinition) : definition;
    return { name, type, format, description: about ?? descriptions[name] ?? name, priority: wide ? 1 : 0 };
  });
}

const descriptions: Readonly<Record<string, string>> = {
  Name: 'The name of the object, unique among those of its kind in its namespace.',
  Age: 'The time since the creation of the object.',
};
