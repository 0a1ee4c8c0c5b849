import { isObject } from '../json.ts';
import type { KubeObject } from '../object.ts';
import { FieldConflicts } from './conflict.ts';
import { emptySet, type FieldSet } from './field-set.ts';
import type { ManagedKind } from './managed-kind.ts';
import { compareTyped } from './typed-compare.ts';
import { typeFaults } from './typed-check.ts';
import { fieldsOf } from './typed-fields.ts';

/** Where client-side apply keeps what it applied. */
export const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration';
const maxAnnotationBytes = 256 * 1024;

/** The fields that client-side apply applied, as far as they are still so. */
function appliedByClient(kind: ManagedKind, live: KubeObject): FieldSet {
  const text = live.metadata?.annotations?.[lastAppliedAnnotation];
  const type = kind.typeOf(kind.apiVersion);
  if (text === undefined || text === '' || type === undefined) return emptySet;
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch {
    return emptySet; // whatever wrote this was not kubectl
  }
  if (!isObject(config) || config['apiVersion'] !== kind.apiVersion || typeFaults(type, config) !== undefined) return emptySet;
  const { modified, added, removed } = compareTyped(type, config, live);
  return fieldsOf(type, config).difference(modified).difference(added).difference(removed);
}

/**
 * Whoever moves from client-side to server-side apply with kubectl has no conflict about fields that were applied before.
 * @returns the conflicts that remain; undefined when none do
 */
export function conflictsBesides(kind: ManagedKind, live: KubeObject, conflicts: FieldConflicts): FieldConflicts | undefined {
  const applied = appliedByClient(kind, live);
  if (applied.empty) return conflicts;
  const rest = conflicts.conflicts.filter(({ path }) => !applied.has(path));
  return rest.length === 0 ? undefined : new FieldConflicts(rest);
}

/** Keeps the annotation of client-side apply as it would be, so that one can go back to it. */
export function withLastApplied(object: KubeObject, config: KubeObject): KubeObject {
  const annotations = object.metadata?.annotations;
  if (annotations === undefined || (annotations[lastAppliedAnnotation] ?? '') === '') return object;
  const { [lastAppliedAnnotation]: _old, ...others } = config.metadata?.annotations ?? {};
  const metadata =
    config.metadata === undefined ? undefined : { ...config.metadata, ...(config.metadata.annotations && { annotations: others }) };
  if (metadata?.annotations !== undefined && Object.keys(others).length === 0) delete (metadata as { annotations?: unknown }).annotations;
  const text = `${JSON.stringify(sorted({ ...config, ...(metadata && { metadata }) }))}\n`;
  const next: Record<string, string> = { ...annotations, [lastAppliedAnnotation]: text };
  let bytes = 0;
  for (const [key, value] of Object.entries(next)) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  if (bytes > maxAnnotationBytes) delete next[lastAppliedAnnotation];
  return { ...object, metadata: { ...object.metadata, annotations: next } };
}

/** Go writes the keys of maps in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value).sort()) result[key] = sorted(value[key]);
  return result;
}
