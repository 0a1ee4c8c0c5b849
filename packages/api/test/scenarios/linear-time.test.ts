import { describe, expect, it } from 'vitest';
import { applyDefaults } from '../../src/defaulting/apply-defaults.ts';
import { type GroupVersionKind, kinds } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { type Schema, schemaOf } from '../../src/schema/schema.ts';
import { warningsAbout } from '../../src/validation/object-warnings.ts';
import { validateObject } from '../../src/validation/validate-object.ts';

type Fields = Record<string, unknown>;
/** A struct of a kind that has lists or maps, with the way to it: `[]` stands for the first item of a list or the one entry of a map. */
interface Struct {
  readonly gvk: GroupVersionKind;
  readonly namespaced: boolean;
  readonly title: string;
  readonly schema: Schema;
  readonly path: readonly (readonly [field: string, schema: Schema])[];
}

const entries = 12_000;
/** Milliseconds of processor time. The growth of shorter runs is noise. */
const measurable = 150;
/** Four times the entries may take four times the processor time; a comparison of all pairs takes sixteen times. */
const maxGrowth = 10;

const isCollection = ({ items, additionalProperties }: Schema): boolean => items !== undefined || additionalProperties !== undefined;

/** Every definition that has lists or maps, once, in the first kind that contains it. */
function structsOfAllKinds(): Struct[] {
  const seen = new Set<string>();
  const found: Struct[] = [];
  const visit = (struct: Struct): void => {
    const { schema, path } = struct;
    const name = schema.name ?? '';
    if (schema.properties === undefined || seen.has(name)) return;
    seen.add(name);
    if ([...schema.properties.values()].some(isCollection)) found.push({ ...struct, title: `${struct.gvk.kind}: ${name}` });
    for (const [field, property] of schema.properties) {
      const next = property.items ?? property.additionalProperties ?? property;
      visit({ ...struct, schema: next, path: [...path, [field, property]] });
    }
  };
  for (const { group, version, kind, namespaced, verbs } of kinds) {
    const gvk = { group, version, kind };
    const schema = schemaOf(gvk);
    if (schema !== undefined && verbs.includes('create')) visit({ gvk, namespaced, title: '', schema, path: [] });
  }
  return found;
}

function scalar({ type, format }: Schema, i: number): unknown {
  if (format === 'quantity') return '1';
  if (format === 'date-time') return '2026-01-01T00:00:00Z';
  if (format === 'micro-time') return '2026-01-01T00:00:00.000000Z';
  if (format === 'byte') return 'YQ==';
  if (type === 'string') return `k${i}`;
  if (type === 'boolean') return true;
  return type === 'any' ? {} : (i % 60_000) + 1;
}

/** An entry of a list or map: its scalar fields have values that differ between the entries. */
function entry(schema: Schema, i: number): unknown {
  if (schema.type !== 'object') return isCollection(schema) ? (schema.items === undefined ? {} : []) : scalar(schema, i);
  const value: Fields = {};
  for (const [field, property] of schema.properties ?? [])
    if (property.type !== 'object' && !isCollection(property) && property.type !== 'any') value[field] = scalar(property, i);
  return value;
}

function collection({ items, additionalProperties }: Schema, count: number): unknown {
  const indexes = Array.from({ length: count }, (_, i) => i);
  if (items !== undefined) return indexes.map((i) => entry(items, i));
  return Object.fromEntries(indexes.map((i) => [`k${i}`, entry(additionalProperties as Schema, i)]));
}

/** An object of the kind whose struct has `count` entries in each of its lists and maps. */
function objectWith({ gvk, namespaced, schema, path }: Struct, count: number): KubeObject {
  const last: Fields = entry(schema, 0) as Fields;
  for (const [field, property] of schema.properties ?? []) if (isCollection(property)) last[field] = collection(property, count);
  const root = path.reduceRight<Fields>((inner, [field, { items, additionalProperties }]) => {
    if (items !== undefined) return { [field]: [inner] };
    return { [field]: additionalProperties === undefined ? inner : { k0: inner } };
  }, last);
  const { group, version, kind } = gvk;
  const metadata = { name: 'x', ...(namespaced && { namespace: 'a' }), resourceVersion: '1', ...(root['metadata'] as object | undefined) };
  return { ...root, apiVersion: group === '' ? version : `${group}/${version}`, kind, metadata } as KubeObject;
}

/** Processor time in milliseconds of the defaults and rules for a create, an update, and an update of an object under deletion. */
function cost(struct: Struct, count: number): number {
  const { gvk } = struct;
  const objects = [objectWith(struct, count), objectWith(struct, count), objectWith(struct, Math.ceil(count / 2))];
  const before = process.cpuUsage();
  const [created, updated, old] = objects.map((object) => applyDefaults(gvk, object)) as [KubeObject, KubeObject, KubeObject];
  validateObject(gvk, created);
  validateObject(gvk, updated, old);
  const deletionTimestamp = '2026-01-01T00:00:00Z';
  const deleted = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, deletionTimestamp } });
  validateObject(gvk, deleted(updated), deleted(old));
  validateObject(gvk, updated, old, { subresource: 'status' });
  warningsAbout(gvk, { object: created, old: undefined, subresource: '' });
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function growth(struct: Struct): number {
  const large = cost(struct, entries);
  return large < measurable ? 1 : large / Math.max(cost(struct, entries / 4), 1);
}

describe('defaults and validation of lists and maps', () => {
  it.each(structsOfAllKinds())('take time in proportion to the entries ($title)', (struct) => {
    // Garbage collection and other work of the process add to single runs.
    const least = [0, 1, 2].reduce((least) => (least <= maxGrowth ? least : Math.min(least, growth(struct))), Number.POSITIVE_INFINITY);
    expect(least).toBeLessThanOrEqual(maxGrowth);
  });
});
