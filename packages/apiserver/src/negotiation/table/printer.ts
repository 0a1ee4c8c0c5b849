import type { KubeObject } from '@oarlock/api/object';

export type TableCell = string | number | bigint | boolean | null;

/** `TableColumnDefinition` of meta.k8s.io. Columns of priority 1 show with `-o wide` only. */
export interface TableColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
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

/** How objects of one kind look as a row. Cells are made for the moment `now` (epoch milliseconds): ages are part of them. */
export interface Printer<T extends KubeObject = KubeObject> {
  readonly columns: readonly TableColumn[];
  cells(object: T, now: number): readonly TableCell[];
  conditions?(object: T): readonly TableRowCondition[];
}

export interface ColumnDefinition {
  readonly name: string;
  readonly wide?: boolean;
  readonly type?: TableColumn['type'];
  readonly about?: string;
}

/** Columns from their names; one called Name is the object's name to clients that look for it. */
export function columnsOf(...sketches: readonly (string | ColumnDefinition)[]): readonly TableColumn[] {
  return sketches.map((sketch) => {
    const { name, wide = false, type = 'string', about } = typeof sketch === 'string' ? ({ name: sketch } as ColumnDefinition) : sketch;
    return { name, type, format: name === 'Name' ? 'name' : '', description: about ?? descriptions[name] ?? name, priority: wide ? 1 : 0 };
  });
}

const descriptions: Readonly<Record<string, string>> = {
  Name: 'The name of the object, unique among those of its kind in its namespace.',
  Age: 'How long ago the object was created.',
};
