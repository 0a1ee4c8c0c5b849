import { isObject, own, safeKey, type MutableObject } from '../json/json.ts';

/**
 * Applies an RFC 7386 patch: objects merge, null removes, any other value replaces. Does not change its arguments.
 * @throws StatusError BadRequest for the key `__proto__`.
 */
export function applyMergePatch(document: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: MutableObject = isObject(document) ? { ...document } : {};
  for (const key of Object.keys(patch)) {
    const value = patch[safeKey(key)];
    if (value === null) delete result[key];
    else result[key] = applyMergePatch(own(result, key), value);
  }
  return result;
}
