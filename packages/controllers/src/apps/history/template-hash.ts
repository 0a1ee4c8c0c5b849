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
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  let text = '';
  if (Array.isArray(value)) {
    for (const item of value) text += text === '' ? canonical(item) : `,${canonical(item)}`;
    return `[${text}]`;
  }
  for (const key of Object.keys(value).sort()) {
    const member: unknown = (value as Readonly<Record<string, unknown>>)[key];
    if (isEmptyValue(key, member)) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonical(member)}`;
  }
  return `{${text}}`;
}

/** The length of a text, in characters, from which it is kept for its template: a reconcile compares the same templates several times. */
const minKept = 65_536;
const kept = new WeakMap<PodTemplateSpec, string>();

/** Returns the canonical text of a pod template, without the label that holds the template hash. */
export function templateText(template: PodTemplateSpec | undefined): string {
  const known = template && kept.get(template);
  if (known !== undefined) return known;
  const { [hashLabel]: _hash, ...labels } = template?.metadata?.labels ?? {};
  const text = canonical({ ...template, metadata: { ...template?.metadata, labels, creationTimestamp: undefined } });
  if (text.length >= minKept && Object.isFrozen(template)) kept.set(template as PodTemplateSpec, text);
  return text;
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

const [fnvOffset, fnvPrime] = [0x811c9dc5, 0x01000193];

/** Returns the 32-bit FNV-1 hash of the UTF-8 bytes of a text. */
export function fnv1(text: string): number {
  const bytes = Buffer.from(text);
  // a signed integer until the end, and an index: five times as fast for templates of a megabyte as numbers above 2^31 and an iterator
  let hash = fnvOffset | 0;
  for (let index = 0; index < bytes.length; index++) hash = Math.imul(hash, fnvPrime) ^ (bytes[index] as number);
  return hash >>> 0;
}

/** Returns the 32-bit FNV-1a hash of the UTF-8 bytes of a text. */
export function fnv1a(text: string): number {
  const bytes = Buffer.from(text);
  let hash = fnvOffset | 0;
  for (let index = 0; index < bytes.length; index++) hash = Math.imul(hash ^ (bytes[index] as number), fnvPrime);
  return hash >>> 0;
}

/** Replaces each character by one of the alphabet (rand.SafeEncodeString upstream). */
export const safeEncode = (text: string): string => Array.from(text, (char) => alphabet[char.charCodeAt(0) % alphabet.length]).join('');
