import type { TreeNode } from '@oarlock/tracing/trace-tree';

/** A field that an admission plugin changed. */
export interface ChangedField {
  readonly kind: 'added' | 'changed' | 'removed';
  readonly path: string;
  /** The value before the change, as JSON that may be shortened; undefined if the field is new, or the value is not recorded or not readable. */
  readonly before: string | undefined;
}

const kinds = ['added', 'changed', 'removed'] as const;

/** Returns the fields that a span of an admission plugin names. Attributes of spans that are lists are JSON. */
export function changedFields({ attributes }: Pick<TreeNode['span'], 'attributes'>): readonly ChangedField[] {
  const values = parsed(attributes['oarlock.before']);
  const valuesBefore = new Map(typeof values === 'object' && values !== null ? Object.entries(values) : []);
  return kinds.flatMap((kind) => {
    const paths = parsed(attributes[`oarlock.${kind}`]);
    if (!Array.isArray(paths)) return [];
    return paths.map(String).map((path) => {
      const before: unknown = valuesBefore.get(path);
      return { kind, path, before: typeof before === 'string' ? before : undefined };
    });
  });
}

/** Nodes and control plane processes post spans: the text of an attribute may be anything. */
function parsed(json: unknown): unknown {
  try {
    return typeof json === 'string' ? (JSON.parse(json) as unknown) : undefined;
  } catch {
    return undefined;
  }
}

export interface DiffLine {
  readonly sign: '+' | '-' | '~';
  readonly text: string;
}

/** Returns the lines of a difference: the field before the change, and after it. Without a known value before, a changed field has one line. */
export function diffLines({ kind, path, before }: ChangedField, after: unknown): readonly DiffLine[] {
  const line = (sign: DiffLine['sign'], json: string | undefined): DiffLine => ({
    sign,
    text: json === undefined ? path : `${path}: ${json}`,
  });
  const added = line(kind === 'changed' && before === undefined ? '~' : '+', JSON.stringify(after));
  if (kind === 'removed') return [line('-', before)];
  return before === undefined ? [added] : [line('-', before), added];
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
