import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';

/** Returns the value at a simple path such as `.spec.color`; undefined if there is none. */
export function valueAt(object: unknown, path: string): unknown {
  let value = object;
  for (const name of path.split('.').slice(1)) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** Returns a function that reads the value at a simple path as a string, for field selectors; '' if the value is absent. */
export function fieldReader(path: string): (object: KubeObject) => string {
  return (object) => {
    const value = valueAt(object, path);
    return typeof value === 'string'
      ? value
      : typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean'
        ? String(value)
        : '';
  };
}

/** Returns a copy of the object with the value at a simple path replaced. */
export function withValueAt<T extends KubeObject>(object: T, path: string, value: unknown): T {
  const put = (node: unknown, names: readonly string[]): unknown => {
    const [name, ...rest] = names;
    if (name === undefined) return value;
    const fields = isObject(node) ? node : {};
    return { ...fields, [name]: put(Object.hasOwn(fields, name) ? fields[name] : undefined, rest) };
  };
  return put(object, path.split('.').slice(1)) as T;
}
