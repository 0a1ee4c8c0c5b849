import { createHash } from 'node:crypto';
import type { PodTemplateSpec } from '@oarlock/api/types/core-v1';

export const hashLabel = 'pod-template-hash';
// no vowels, and nothing that reads like something else: upstream's alphabet for generated suffixes
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** Go's clients write what is empty where others leave it out: `resources: {}`, `creationTimestamp: null`. Only of an emptyDir it means something. */
function saysNothing(key: string, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && key !== 'emptyDir' && Object.keys(value).length === 0;
}

/** JSON with keys in order and without what says nothing, so that equal templates have equal text. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value)
    .filter(([key, v]) => !saysNothing(key, v))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, v]) => `${JSON.stringify(key)}:${canonical(v)}`).join(',')}}`;
}

/** What makes two templates the same: everything but the label that holds the hash itself. */
export function templateText(template: PodTemplateSpec | undefined): string {
  const { [hashLabel]: _hash, ...labels } = template?.metadata?.labels ?? {};
  return canonical({ ...template, metadata: { ...template?.metadata, labels, creationTimestamp: undefined } });
}

/** Ten characters for names and labels. `collisions` makes a new one when a name is taken by another template. */
export function hashText(text: string, collisions: number): string {
  const digest = createHash('sha256').update(text).update(String(collisions)).digest();
  return Array.from(digest.subarray(0, 10), (byte) => alphabet[byte % alphabet.length]).join('');
}
export const templateHash = (template: PodTemplateSpec | undefined, collisions: number): string =>
  hashText(templateText(template), collisions);
