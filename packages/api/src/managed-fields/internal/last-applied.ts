import { stringifyExact } from '../../json/exact-json.ts';
import { escapeHtml } from '../../json/go-print.ts';
import { isObject } from '../../json/json.ts';
import type { KubeObject } from '../../object.ts';
import { FieldConflicts } from './conflict.ts';
import { emptySet, type FieldSet } from '../field-set.ts';
import type { ManagedKind } from '../managed-kind.ts';
import { compareTyped } from './typed-compare.ts';
import { typeErrors } from './typed-validation.ts';
import { toFieldSet } from './typed-field-set.ts';

/** The annotation in which client-side apply stores the last configuration. */
export const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration';
const maxAnnotationBytes = 256 * 1024;

/** Returns the fields set by client-side apply that still have the applied value. */
function appliedByClient(kind: ManagedKind, live: KubeObject): FieldSet {
  const text = live.metadata?.annotations?.[lastAppliedAnnotation];
  const type = kind.typeOf(kind.apiVersion);
  if (text === undefined || text === '' || type === undefined) return emptySet;
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch {
    return emptySet; // the annotation was not written by kubectl
  }
  if (!isObject(config) || config['apiVersion'] !== kind.apiVersion || typeErrors(type, config) !== undefined) return emptySet;
  const { modified, added, removed } = compareTyped(type, config, live);
  return toFieldSet(type, config).difference(modified).difference(added).difference(removed);
}

/**
 * Removes conflicts about fields that client-side apply set, so that kubectl users can move to server-side apply without conflicts.
 * @returns the remaining conflicts, or undefined if there are none
 */
export function conflictsExceptLastApplied(kind: ManagedKind, live: KubeObject, conflicts: FieldConflicts): FieldConflicts | undefined {
  const applied = appliedByClient(kind, live);
  if (applied.empty) return conflicts;
  const rest = conflicts.conflicts.filter(({ path }) => !applied.has(path));
  return rest.length === 0 ? undefined : new FieldConflicts(rest);
}

/** Keeps the annotation of client-side apply up to date, so that users can go back to it (lastAppliedUpdater upstream). */
export function withLastApplied(object: KubeObject, config: KubeObject): KubeObject {
  const annotations = object.metadata?.annotations;
  if (annotations === undefined || (annotations[lastAppliedAnnotation] ?? '') === '') return object;
  const { [lastAppliedAnnotation]: _old, ...others } = config.metadata?.annotations ?? {};
  const { annotations: applied, ...unannotated } = config.metadata ?? {};
  const metadata = config.metadata && { ...unannotated, ...(applied && { annotations: others }) };
  const text = `${escapeHtml(stringifyExact(sorted({ ...config, ...(metadata && { metadata }) })))}\n`;
  const next: Record<string, string> = { ...annotations, [lastAppliedAnnotation]: text };
  let bytes = 0;
  for (const [key, value] of Object.entries(next)) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  if (bytes > maxAnnotationBytes) delete next[lastAppliedAnnotation];
  return { ...object, metadata: { ...object.metadata, annotations: next } };
}

/** Sorts map keys, as Go's JSON encoder does. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value).sort()) result[key] = sorted(value[key]);
  return result;
}
