import { expect, it } from 'vitest';
import { deducedType, plainField, type FieldType } from '../../../src/managed-fields/field-type.ts';
import { FieldSet } from '../../../src/managed-fields/field-set.ts';
import { openApiType } from '../../../src/managed-fields/openapi-type.ts';
import { reconcileFieldSetWithSchema } from '../../../src/managed-fields/internal/typed-field-set.ts';

const meta: FieldType = {
  map: { atomic: false, fields: new Map([['labels', plainField('labels', deducedType)]]), values: undefined, standing: [] },
};

it('a list that became atomic is owned as a whole by managers of its parts', () => {
  const type = openApiType(
    {
      type: 'object',
      properties: {
        spec: {
          type: 'object',
          properties: {
            list: { type: 'array', 'x-kubernetes-list-type': 'atomic', items: { type: 'string' } },
            map: { type: 'object', 'x-kubernetes-map-type': 'atomic', additionalProperties: { type: 'string' } },
            kept: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
          },
        },
      },
    },
    meta,
  );
  const before = FieldSet.of(
    ['f:spec', 'f:list', 'v:"a"'],
    ['f:spec', 'f:list', 'v:"b"'],
    ['f:spec', 'f:map', 'f:x'],
    ['f:spec', 'f:kept', 'v:"a"'],
    ['f:metadata', 'f:labels', 'f:x'],
  );
  const after = reconcileFieldSetWithSchema(type, before);
  expect([...after.paths()].map((path) => path.join(' ')).sort()).toEqual([
    'f:metadata f:labels f:x',
    'f:spec f:kept v:"a"',
    'f:spec f:list',
    'f:spec f:map',
  ]);
  expect(reconcileFieldSetWithSchema(type, after)).toBe(after);
});
