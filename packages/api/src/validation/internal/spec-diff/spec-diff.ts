import type { EphemeralContainer, PersistentVolumeClaimSpec, PodSpec } from '../../../generated/types/core-v1.ts';
import { isObject, own } from '../../../json/json.ts';
import { internalTypes } from './internal-types.ts';
import { unifiedDiff } from './unified-diff.ts';

interface Field {
  readonly name: string;
  /** The name of the JSON field in lower case. */
  readonly json: string;
  readonly zero: unknown;
  readonly struct: string | undefined;
  readonly isEmbedded: boolean;
  readonly isPointer: boolean;
  readonly isList: boolean;
}

const notation = /^(~?)([A-Za-z]+)([#?*]?)(?:=(\*|\[\])?([A-Za-z]+))?(?:\/([A-Za-z]+))?$/;
function parseField(text: string): Field {
  const [, embedded = '', name = '', mark = '', prefix = '', struct, json = name] = notation.exec(text) ?? [];
  const zero = mark === '*' || struct !== undefined ? null : mark === '#' ? 0 : mark === '?' ? false : '';
  const isEmbedded = embedded !== '';
  return {
    name,
    json: json.toLowerCase(),
    zero,
    struct: isEmbedded ? name : struct,
    isEmbedded,
    isPointer: prefix === '*',
    isList: prefix === '[]',
  };
}

const parsed = new Map<string, readonly Field[]>();
function fieldsOf(type: string): readonly Field[] {
  let fields = parsed.get(type);
  if (fields === undefined) parsed.set(type, (fields = (internalTypes[type] ?? '').split(' ').map(parseField)));
  return fields;
}

/** Converts a value of a versioned type to the internal type with the fields in the order of Go's encoding/json. */
function toInternal(type: string, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const members = new Map(Object.entries(value).map(([key, member]) => [key.toLowerCase(), member]));
  const result: Record<string, unknown> = {};
  for (const field of fieldsOf(type)) {
    const { name, json, zero, struct, isEmbedded, isPointer, isList } = field;
    if (isEmbedded) Object.assign(result, toInternal(struct ?? '', value));
    else result[name] = struct === undefined ? (members.get(json) ?? zero) : nested(struct, members.get(json), { isPointer, isList });
  }
  if (type === 'PersistentVolumeClaimTemplate') return { ...(own(value, 'metadata') as object | undefined), ...result };
  return type === 'ResourceFieldSelector' && result['Divisor'] === '' ? { ...result, Divisor: '0' } : result;
}

function nested(struct: string, value: unknown, { isPointer, isList }: { readonly isPointer: boolean; readonly isList: boolean }): unknown {
  if (isList) return Array.isArray(value) ? value.map((item) => toInternal(struct, isObject(item) ? item : {})) : null;
  if (isObject(value)) return toInternal(struct, value);
  return isPointer ? null : toInternal(struct, {});
}

/** Formats a value as Go's json.MarshalIndent does. Struct fields keep their order; keys of maps are sorted. */
function format(value: Readonly<Record<string, unknown>>): string {
  const sorted = (_: string, member: unknown) =>
    isObject(member) && Object.keys(member).every((key) => !/^[A-Z]/.test(key))
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member;
  return JSON.stringify(value, sorted, 2)
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e')
    .replaceAll('&', '\\u0026')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}

function diff(type: string, before: object, after: object): string {
  const text = (value: object) => format(toInternal(type, value as Record<string, unknown>));
  return unifiedDiff(text(before), text(after));
}

/** Moves the fields that the internal pod spec has in its security context. */
function withHostFields({ hostNetwork, hostPID, hostIPC, shareProcessNamespace, hostUsers, ...spec }: PodSpec): object {
  const fields = { hostNetwork, hostPID, hostIPC, shareProcessNamespace, hostUsers };
  const isSet = spec.securityContext !== undefined || Object.values(fields).some((field) => field !== undefined);
  return isSet ? { ...spec, securityContext: { ...spec.securityContext, ...fields } } : spec;
}

/** Returns the differences of two pod specs for the message about a forbidden update (diff.Diff of the internal types). */
export const podSpecDiff = (before: PodSpec, after: PodSpec): string => diff('PodSpec', withHostFields(before), withHostFields(after));
export const ephemeralContainerDiff = (before: EphemeralContainer, after: EphemeralContainer): string =>
  diff('EphemeralContainer', before, after);
export const claimSpecDiff = (before: PersistentVolumeClaimSpec, after: PersistentVolumeClaimSpec): string =>
  diff('PersistentVolumeClaimSpec', before, after);
export const volumeSourceDiff = (before: object, after: object): string => diff('PersistentVolumeSource', before, after);
