import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { atomicMap, conditions, goDuration, immutable, intOrString, listMap, listSet, objectOf, quantity, rule } from '../src/fields.ts';
import { SchemaError } from '../src/schema-error.ts';
import { structuralSchema } from '../src/structural-schema.ts';

const field = (type: z.ZodType) => structuralSchema(z.object({ field: type })).properties?.['field'];

describe('structuralSchema', () => {
  it.each<[string, z.ZodType, object]>([
    ['an integer with bounds', z.int().min(1).max(5), { type: 'integer', format: 'int64', minimum: 1, maximum: 5 }],
    ['an integer of 32 bits', z.int32(), { type: 'integer', format: 'int32' }],
    ['a number that is an integer', z.number().int().positive(), { type: 'integer', format: 'int64', minimum: 0, exclusiveMinimum: true }],
    [
      'a number with open bounds',
      z.number().gt(0).lt(5),
      { type: 'number', minimum: 0, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: true },
    ],
    ['multiples', z.number().multipleOf(0.5), { type: 'number', multipleOf: 0.5 }],
    ['a default', z.int32().default(3), { type: 'integer', format: 'int32', default: 3 }],
    ['a boolean', z.boolean().default(false), { type: 'boolean', default: false }],
    ['an enumeration', z.enum(['a', 'b']).default('a'), { type: 'string', enum: ['a', 'b'], default: 'a' }],
    ['a literal', z.literal('a'), { type: 'string', enum: ['a'] }],
    ['a nullable field', z.string().nullable(), { type: 'string', nullable: true }],
    ['a description', z.string().describe('a name'), { type: 'string', description: 'a name' }],
    ['a length and a pattern', z.string().min(1).max(9).regex(/^a+$/), { type: 'string', minLength: 1, maxLength: 9, pattern: '^a+$' }],
    ['two patterns', z.string().regex(/^a/).regex(/b$/), { type: 'string', pattern: '^a', allOf: [{ pattern: 'b$' }] }],
    ['a prefix', z.string().startsWith('x'), { type: 'string', pattern: '^x.*' }],
    ['an email address', z.email(), { type: 'string', format: 'email' }],
    ['a UUID', z.uuid(), { type: 'string', format: 'uuid' }],
    ['a URL', z.url(), { type: 'string', format: 'uri' }],
    ['a time', z.iso.datetime(), { type: 'string', format: 'date-time' }],
    ['an address', z.ipv4(), { type: 'string', format: 'ipv4' }],
    ['bytes', z.base64(), { type: 'string', format: 'byte' }],
    ['a range of addresses', z.cidrv4(), { type: 'string', format: 'cidr', pattern: expect.stringContaining('3[0-2])$') }],
    ['a duration of Go', goDuration(), { type: 'string', format: 'duration' }],
    ['a list', z.array(z.string()).min(1).max(3), { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string' } }],
    ['a set', listSet(z.array(z.string())), { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' }],
    ['a map', z.record(z.string(), z.int32()), { type: 'object', additionalProperties: { type: 'integer', format: 'int32' } }],
    ['any value', z.unknown(), { 'x-kubernetes-preserve-unknown-fields': true }],
    ['an object of a Kubernetes type', objectOf<{ a: string }>(), { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }],
    ['a number or a string', intOrString(), { 'x-kubernetes-int-or-string': true }],
    ['a union of a string and an integer', z.union([z.int(), z.string()]), { 'x-kubernetes-int-or-string': true }],
    ['a union of literals', z.union([z.literal('a'), z.literal('b')]), { type: 'string', enum: ['a', 'b'] }],
    [
      'a union of patterns',
      z.union([z.string().regex(/^a/), z.ipv4()]),
      { type: 'string', anyOf: [{ pattern: '^a' }, { format: 'ipv4' }] },
    ],
  ])('expresses %s', (_, type, expected) => {
    expect(field(type)).toEqual(expected);
  });

  it('requires fields without a default that are not optional', () => {
    expect(structuralSchema(z.object({ a: z.string(), b: z.string().optional(), c: z.string().default('c') })).required).toEqual(['a']);
  });

  it('lets the API server prune unknown fields, or keep them', () => {
    const one = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
    expect(field(z.strictObject({ a: z.string() }))).toEqual(one);
    expect(field(z.object({ a: z.string() }))).toEqual(one);
    expect(field(z.looseObject({ a: z.string() }))).toEqual({ ...one, 'x-kubernetes-preserve-unknown-fields': true });
  });

  it('sets the defaults of a nested object', () => {
    expect(field(z.object({ a: z.string().default('x') }).prefault({}))).toEqual({
      type: 'object',
      default: {},
      properties: { a: { type: 'string', default: 'x' } },
    });
  });

  it('expresses a discriminated union of objects with fields outside of anyOf', () => {
    const disk = z.object({ type: z.literal('disk'), path: z.string() });
    const memory = z.object({ type: z.literal('memory') });
    expect(field(z.discriminatedUnion('type', [disk, memory]))).toEqual({
      type: 'object',
      properties: { type: { type: 'string', enum: ['disk', 'memory'] }, path: { type: 'string' } },
      required: ['type'],
      anyOf: [
        { properties: { type: { enum: ['disk'] } }, required: ['type', 'path'] },
        { properties: { type: { enum: ['memory'] } }, required: ['type'], not: { anyOf: [{ required: ['path'] }] } },
      ],
    });
  });

  it('merges intersections', () => {
    expect(field(z.intersection(z.object({ a: z.string() }), z.object({ b: z.string().optional() })))).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'string' } },
      required: ['a'],
    });
  });

  it('has the extensions of the fields', () => {
    expect(field(quantity())).toEqual({ 'x-kubernetes-int-or-string': true, pattern: expect.stringContaining('[KMGTPE]i') });
    expect(field(atomicMap(z.record(z.string(), z.string())))).toMatchObject({ 'x-kubernetes-map-type': 'atomic' });
    expect(field(listMap(z.array(z.object({ name: z.string() })), 'name'))).toMatchObject({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    });
    expect(field(rule(immutable(z.string()), 'self != ""', { message: 'must have a value', reason: 'FieldValueRequired' }))).toEqual({
      type: 'string',
      'x-kubernetes-validations': [
        { rule: 'self == oldSelf', message: 'the field is immutable' },
        { rule: 'self != ""', message: 'must have a value', reason: 'FieldValueRequired' },
      ],
    });
    expect(field(conditions().optional())).toMatchObject({
      'x-kubernetes-list-map-keys': ['type'],
      items: { required: ['type', 'status', 'lastTransitionTime', 'reason', 'message'] },
    });
  });

  it.each<[string, z.ZodType, RegExp]>([
    ['a refinement', z.string().refine((text) => text !== 'a'), /^field: .* refinement: write it in CEL with rule\(\)$/],
    ['a refinement in a list', z.array(z.object({ a: z.string().refine(Boolean) })), /^field\[\]\.a: /],
    ['a transform', z.string().transform((text) => text.length), /^field: the API server does not transform values$/],
    ['a trim', z.string().trim(), /^field: the API server does not transform values$/],
    ['a big integer', z.bigint(), /^field: JSON has no bigint/],
    ['a date', z.date(), /^field: JSON has no date: use z\.iso\.datetime\(\)$/],
    ['a set', z.set(z.string()), /^field: JSON has no set: use listSet\(\)$/],
    ['a tuple', z.tuple([z.string()]), /^field: .*one schema for all items/],
    ['patterns of keys', z.record(z.string().regex(/x/), z.string()), /^field: .*keys of a map/],
    ['enumerated keys', z.record(z.enum(['a']), z.string()), /^field: .*keys of a map/],
    ['a lookahead', z.string().regex(/^(?!a)/), /^field: the pattern \^\(\?!a\) has a lookaround/],
    ['an ISO duration', z.iso.duration(), /^field: the pattern .* lookaround/],
    ['types that differ', z.union([z.string(), z.boolean()]), /^field: .*one type for a field, not string or boolean$/],
    ['fields that differ', z.union([z.object({ a: z.string() }), z.object({ a: z.int() })]), /^field\.a: the alternatives/],
    ['named and other fields', z.object({ a: z.string() }).catchall(z.int()), /^field: .*either named fields/],
    ['a custom check', z.custom<string>(), /^field: .*objectOf\(\)/],
  ])('rejects %s and names the field', (_, type, message) => {
    expect(() => field(type)).toThrow(SchemaError);
    expect(() => field(type)).toThrow(message);
  });

  it('rejects recursion', () => {
    interface Tree {
      readonly children: readonly Tree[];
    }
    const tree: z.ZodType<Tree> = z.lazy(() => z.object({ children: z.array(tree) }));
    expect(() => structuralSchema(tree, 'spec')).toThrow(/^spec: a structural schema cannot be recursive/);
  });
});
