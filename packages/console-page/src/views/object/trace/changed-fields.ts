import type { TreeNode } from '@oarlock/tracing/trace-tree';

/** A field that an admission plugin changed. */
export interface ChangedField {
  readonly kind: 'added' | 'changed' | 'removed';
  readonly path: string;
}

const kinds = ['added', 'changed', 'removed'] as const;

/** Returns the fields that a span of an admission plugin names. Attributes of spans that are lists are JSON. */
export function changedFields({ attributes }: Pick<TreeNode['span'], 'attributes'>): readonly ChangedField[] {
  return kinds.flatMap((kind) => {
    const value = attributes[`oarlock.${kind}`];
    return typeof value === 'string' ? pathsOf(value).map((path) => ({ kind, path })) : [];
  });
}

/** Nodes and control plane processes post spans: the text of an attribute may be anything. */
function pathsOf(json: string): readonly string[] {
  try {
    const value: unknown = JSON.parse(json);
    return Array.isArray(value) ? value.map(String) : [];
  } catch {
    return [];
  }
}

const part = /\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([\w$-]+)/gy;

/** Returns the value at a path such as `spec.containers[0].image` or `metadata.labels["a/b"]`; undefined if there is none. */
export function valueAt(object: unknown, path: string): unknown {
  let value = object;
  for (const [, index, quoted, name] of path.matchAll(part)) {
    const key = index ?? (quoted === undefined ? name : (JSON.parse(quoted) as string)) ?? '';
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Readonly<Record<string, unknown>>)[key]
        : undefined;
  }
  return value;
}
