/** One place at which two JSON values differ. `before` is absent where something was added, `after` where something was taken away. */
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

/** Where two JSON values differ, in the order of their keys; items of lists that were taken away come last first, so that a patch may follow the order. */
export function differences(before: unknown, after: unknown): Difference[] {
  const found: Difference[] = [];
  const visit = (a: unknown, b: unknown, path: readonly (string | number)[]): void => {
    if (a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      const shared = Math.min(a.length, b.length);
      for (let i = 0; i < shared; i++) visit(a[i], b[i], [...path, i]);
      for (let i = shared; i < b.length; i++) found.push({ path: [...path, i], after: b[i] });
      for (let i = a.length - 1; i >= shared; i--) found.push({ path: [...path, i], before: a[i] });
    } else if (isRecord(a) && isRecord(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
        const [old, now] = [Object.hasOwn(a, key) ? a[key] : undefined, Object.hasOwn(b, key) ? b[key] : undefined];
        if (old === undefined && now !== undefined) found.push({ path: [...path, key], after: now });
        else if (now === undefined && old !== undefined) found.push({ path: [...path, key], before: old });
        else visit(old, now, [...path, key]);
      }
    } else found.push({ path, before: a, after: b });
  };
  visit(before, after, []);
  return found;
}

/** The JSON patch that makes `after` of `before`. */
export function jsonPatch(found: readonly Difference[]): PatchOperation[] {
  return found.map((each): PatchOperation => {
    const path = each.path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    if (each.after === undefined) return { op: 'remove', path };
    return { op: each.before === undefined ? 'add' : 'replace', path, value: each.after };
  });
}

/** `spec.containers[0].image`, `metadata.labels["app.kubernetes.io/name"]`. */
export function pathText(path: readonly (string | number)[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      if (!/^[\w$-]+$/.test(part)) return `[${JSON.stringify(part)}]`;
      return index === 0 ? part : `.${part}`;
    })
    .join('');
}
