import type { KubeObject } from '@oarlock/api/object';

export type Cell = string | number | bigint | boolean | null;

/** `TableColumnDefinition` of meta.k8s.io. Columns of priority 1 show with `-o wide` only. */
export interface Column {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly format: string;
  readonly description: string;
  readonly priority: 0 | 1;
}

export interface RowCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** How objects of one kind look as a row. Cells are made for the moment `now` (epoch milliseconds): ages are part of them. */
export interface Printer<T extends KubeObject = KubeObject> {
  readonly columns: readonly Column[];
  cells(object: T, now: number): readonly Cell[];
  conditions?(object: T): readonly RowCondition[];
}

export interface ColumnSketch {
  readonly name: string;
  readonly wide?: boolean;
  readonly type?: Column['type'];
  readonly about?: string;
}

/** Columns from their names; one called Name is the object's name to clients that look for it. */
export function columnsOf(...sketches: readonly (string | ColumnSketch)[]): readonly Column[] {
  return sketches.map((sketch) => {
    const { name, wide = false, type = 'string', about } = typeof sketch === 'string' ? ({ name: sketch } as ColumnSketch) : sketch;
    return { name, type, format: name === 'Name' ? 'name' : '', description: about ?? descriptions[name] ?? name, priority: wide ? 1 : 0 };
  });
}

const descriptions: Readonly<Record<string, string>> = {
  Name: 'The name of the object, unique among those of its kind in its namespace.',
  Age: 'How long ago the object was created.',
};
