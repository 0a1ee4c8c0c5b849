import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BuiltinTypes } from '../../../src/managed-fields/builtin-type.ts';
import { FieldSet } from '../../../src/managed-fields/field-set.ts';
import { compareTyped } from '../../../src/managed-fields/internal/typed-compare.ts';
import { isFieldSetOfNewObject } from '../../../src/managed-fields/internal/typed-create.ts';
import { stripSet } from '../../../src/managed-fields/strip-meta.ts';
import { schemaOf, type Schema } from '../../../src/schema/schema.ts';

const types = new BuiltinTypes();
const ignored = stripSet.union(FieldSet.of(['f:status']));

/** Objects of a kind with few members, so that equal ones are frequent. */
function arbitrary(schema: Schema, depth = 0): fc.Arbitrary<unknown> {
  switch (schema.type) {
    case 'object': {
      if (schema.properties === undefined) {
        const values = schema.additionalProperties;
        return fc.dictionary(fc.constantFrom('a', 'b'), values === undefined ? fc.constant(1) : arbitrary(values, depth + 1), {
          maxKeys: 2,
          noNullPrototype: true,
        });
      }
      if (depth > 5) return fc.constant({});
      const entries = [...schema.properties].filter(
        ([name]) => !['volumes', 'affinity', 'ephemeralContainers', 'initContainers'].includes(name),
      );
      return fc
        .subarray(entries, { maxLength: Math.min(4, entries.length) })
        .chain((some) => fc.record(Object.fromEntries(some.map(([name, property]) => [name, arbitrary(property, depth + 1)]))));
    }
    case 'array':
      return schema.items === undefined ? fc.constant([]) : fc.array(arbitrary(schema.items, depth + 1), { maxLength: 2 });
    case 'integer':
    case 'number':
      return fc.constantFrom(0, 1);
    case 'boolean':
      return fc.boolean();
    default:
      return fc.constantFrom('', 'x');
  }
}

describe('setsExactly', () => {
  it.each([
    ['', 'Pod'],
    ['', 'Service'],
    ['apps', 'Deployment'],
    ['apps', 'DaemonSet'],
    ['batch', 'CronJob'],
  ])('yields for %s %s the result of a comparison with an empty object', (group, kind) => {
    const schema = schemaOf({ group, version: 'v1', kind }) as Schema;
    const type = types.of(schema);
    const objects = arbitrary(schema);
    const setOf = (object: unknown) => {
      const { added, modified } = compareTyped(type, {}, object, { ignored });
      return added.union(modified);
    };
    fc.assert(
      fc.property(objects, objects, (one, other) => {
        const [a, b] = [setOf(one), setOf(other)];
        // a single no costs only time
        if (isFieldSetOfNewObject(type, one, a, ignored)) expect(isFieldSetOfNewObject(type, one, b, ignored)).toBe(a.equals(b));
        expect(!isFieldSetOfNewObject(type, other, a, ignored) || a.equals(b)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('recognizes equal pods', () => {
    const type = types.of(schemaOf({ group: '', version: 'v1', kind: 'Pod' }) as Schema);
    const pod = (name: string, more: object = {}) => ({
      kind: 'Pod',
      apiVersion: 'v1',
      metadata: { name, labels: { app: name } },
      spec: { containers: [{ name: 'main', image: name, ports: [{ containerPort: 80 }], ...more }], restartPolicy: 'Always' },
    });
    const { added, modified } = compareTyped(type, {}, pod('a'), { ignored });
    const set = added.union(modified);
    expect(isFieldSetOfNewObject(type, pod('b'), set, ignored)).toBe(true);
    expect(isFieldSetOfNewObject(type, pod('b', { args: ['x'] }), set, ignored)).toBe(false);
    expect(isFieldSetOfNewObject(type, pod('b', { ports: [{ containerPort: 81 }] }), set, ignored)).toBe(false);
    expect(isFieldSetOfNewObject(type, pod('b', { ports: [] }), set, ignored)).toBe(false);
  });
});
