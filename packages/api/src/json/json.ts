import { badRequest } from '../status.ts';

/** What JSON.parse returns, readonly. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}
export type MutableObject = Record<string, unknown>;

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an own property: in maps that clients fill, `constructor` and other inherited names are ordinary keys. */
export function own<T>(object: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return object !== undefined && Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * Returns the key unless it is `__proto__`, the one key that plain assignment does not store. Decoding rejects such requests, too.
 * @throws StatusError BadRequest
 */
export function safeKey(key: string): string {
  if (key === '__proto__') throw badRequest('the key "__proto__" is not supported');
  return key;
}

/** Returns true if two JSON values are equal; an undefined property counts as absent. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => jsonEqual(item, b[i]));
  }
  const [x, y] = [a as MutableObject, b as MutableObject];
  let present = 0;
  for (const key of Object.keys(x)) {
    if (x[key] === undefined) continue;
    present++;
    if (!Object.hasOwn(y, key) || !jsonEqual(x[key], y[key])) return false;
  }
  for (const key of Object.keys(y)) if (y[key] !== undefined) present--;
  return present === 0;
}
