import type { PodTemplateSpec } from '@oarlock/api/types/core-v1';

export const hashLabel = 'pod-template-hash';
// no vowels and no characters that look alike: upstream's alphabet for generated suffixes
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/**
 * Returns true for empty values, which Go clients write and other clients omit, such as `resources: {}` and `creationTimestamp: null`. An empty
 * `emptyDir` is not an empty value.
 */
function isEmptyValue(key: string, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && key !== 'emptyDir' && Object.keys(value).length === 0;
}

/** Returns JSON with sorted keys and without empty values, so that equal templates have equal text. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value)
    .filter(([key, v]) => !isEmptyValue(key, v))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, v]) => `${JSON.stringify(key)}:${canonical(v)}`).join(',')}}`;
}

/** Returns the canonical text of a pod template, without the label that holds the template hash. */
export function templateText(template: PodTemplateSpec | undefined): string {
  const { [hashLabel]: _hash, ...labels } = template?.metadata?.labels ?? {};
  return canonical({ ...template, metadata: { ...template?.metadata, labels, creationTimestamp: undefined } });
}

/**
 * Returns the hash of a template for names and labels in the form of upstream's ComputeHash: the digits of a 32-bit FNV-1a hash in upstream's alphabet.
 * `collisions` (`collisionCount`) changes the hash when another template has the name.
 */
export const templateHash = (template: PodTemplateSpec | undefined, collisions: number): string =>
  safeEncode(String(fnv1a(`${templateText(template)}${collisions}`)));

/**
 * Returns upstream's hash of the data of a ControllerRevision (HashControllerRevision): FNV-1 of the JSON as Go writes it and of the collisions,
 * in upstream's alphabet.
 */
export function dataHash(data: unknown, collisions: number): string {
  const json = JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return safeEncode(String(fnv1(`${json}${collisions}`)));
}

/** Returns the 32-bit FNV-1 hash of the UTF-8 bytes of a text. */
export function fnv1(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = (Math.imul(hash, 0x01000193) ^ byte) >>> 0;
  return hash;
}

/** Returns the 32-bit FNV-1a hash of the UTF-8 bytes of a text. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** Replaces each character by one of the alphabet (rand.SafeEncodeString upstream). */
export const safeEncode = (text: string): string => Array.from(text, (char) => alphabet[char.charCodeAt(0) % alphabet.length]).join('');
