/** One difference between two JSON values. `before` is absent for an added value, `after` for a removed one. */
export interface Difference {
  readonly path: readonly (string | number)[];
  readonly before?: unknown;
  readonly after?: unknown;
}

/** An operation of a JSON patch (RFC 6902). */
export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Returns the differences between two JSON values, in the order of their keys. Removed list items are ordered from the last
 * to the first, so that a patch can apply the differences in order.
 */
export function diffJson(before: unknown, after: unknown): Difference[] {
  const differences: Difference[] = [];
  const visit = (a: unknown, b: unknown, path: readonly (string | number)[]): void => {
    if (a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      const shared = Math.min(a.length, b.length);
      for (let i = 0; i < shared; i++) visit(a[i], b[i], [...path, i]);
      for (let i = shared; i < b.length; i++) differences.push({ path: [...path, i], after: b[i] });
      for (let i = a.length - 1; i >= shared; i--) differences.push({ path: [...path, i], before: a[i] });
    } else if (isRecord(a) && isRecord(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
        const [old, now] = [Object.hasOwn(a, key) ? a[key] : undefined, Object.hasOwn(b, key) ? b[key] : undefined];
        if (old === undefined && now !== undefined) differences.push({ path: [...path, key], after: now });
        else if (now === undefined && old !== undefined) differences.push({ path: [...path, key], before: old });
        else visit(old, now, [...path, key]);
      }
    } else differences.push({ path, before: a, after: b });
  };
  visit(before, after, []);
  return differences;
}

/** Converts differences into a JSON patch that turns `before` into `after`. */
export function toJsonPatch(differences: readonly Difference[]): PatchOperation[] {
  return differences.map((each): PatchOperation => {
    const path = each.path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    if (each.after === undefined) return { op: 'remove', path };
    return { op: each.before === undefined ? 'add' : 'replace', path, value: each.after };
  });
}

/** Formats a path: `spec.containers[0].image`, `metadata.labels["app.kubernetes.io/name"]`. */
export function formatPath(path: readonly (string | number)[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      if (!/^[\w$-]+$/.test(part)) return `[${JSON.stringify(part)}]`;
      return index === 0 ? part : `.${part}`;
    })
    .join('');
}
