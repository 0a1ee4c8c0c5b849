import { expect, it } from 'vitest';
import { deducedType, plainField, type FieldType } from '../../src/managed-fields/field-type.ts';
import { FieldSet } from '../../src/managed-fields/field-set.ts';
import { openApiType } from '../../src/managed-fields/openapi-type.ts';
import { reconciled } from '../../src/managed-fields/typed-fields.ts';

const meta: FieldType = {
  map: { atomic: false, fields: new Map([['labels', plainField('labels', deducedType)]]), values: undefined, standing: [] },
};

it('what became atomic is owned as a whole by who owned a part of it', () => {
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
  const after = reconciled(type, before);
  expect([...after.paths()].map((path) => path.join(' ')).sort()).toEqual([
    'f:metadata f:labels f:x',
    'f:spec f:kept v:"a"',
    'f:spec f:list',
    'f:spec f:map',
  ]);
  expect(reconciled(type, after)).toBe(after);
});
