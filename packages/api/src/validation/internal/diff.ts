import { isObject, jsonEqual, own } from '../../json/json.ts';

/** Returns the leaves in which two values differ, one per line, for messages about forbidden updates. At most 20 lines. */
export function diff(before: unknown, after: unknown): string {
  const lines: string[] = [];
  const visit = (path: string, a: unknown, b: unknown): void => {
    if (lines.length >= 20 || jsonEqual(a, b)) return;
    if (isObject(a) && isObject(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)]))
        visit(path === '' ? key : `${path}.${key}`, own(a, key), own(b, key));
    } else if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) visit(`${path}[${i}]`, a[i], b[i]);
    } else {
      if (a !== undefined) lines.push(`- ${path}: ${short(a)}`);
      if (b !== undefined) lines.push(`+ ${path}: ${short(b)}`);
    }
  };
  visit('', before, after);
  return lines.join('\n');
}
const short = (value: unknown) => {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
};
