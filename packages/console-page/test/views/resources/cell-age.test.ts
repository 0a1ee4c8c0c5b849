import { describe, expect, it } from 'vitest';
import type { Row } from '../../../src/api/table-store.ts';
import { cellTextOf } from '../../../src/views/resources/cell-age.ts';

const now = 10_000_000;
const row = (createdAt = now - 3_000_000): Row => ({
  ...{ uid: 'a', name: 'a', namespace: '', isDeleted: false, cells: [] },
  createdAt,
  receivedAt: now - 90_000,
});
const textOf = (column: Parameters<typeof cellTextOf>[0], cell: Row['cells'][number], { resource = 'gadgets', of = row() } = {}) =>
  cellTextOf(column, resource)(of, cell, now);

const jsonPath = (path: string) => `Custom resource definition column (in JSONPath format): ${path}`;

describe('a column named Age', () => {
  it.each([
    ['of the server', 'string', 'The time since the creation of the object.'],
    ['of kube-apiserver', 'string', 'CreationTimestamp is a timestamp representing the server time when this object was created.'],
    ['of a custom resource', 'date', jsonPath('.metadata.creationTimestamp')],
  ])('%s is computed from the creation', (_, type, description) => {
    expect(textOf({ name: 'Age', type, description }, '48m')).toBe('50m');
    expect(textOf({ name: 'Age', type, description }, '<unknown>', { of: row(Number.NaN) })).toBe('<unknown>');
  });

  it.each([
    ['a number', 'integer', jsonPath('.spec.age'), 42, '42'],
    ['a text', 'string', 'The age of the person.', '5m', '5m'],
    ['another time', 'date', jsonPath('.status.startedAt'), '5m', '6m30s'],
    ['a time that is missing', 'date', jsonPath('.status.startedAt'), null, ''],
    ['an invalid time', 'date', jsonPath('.status.startedAt'), '<invalid>', '<invalid>'],
  ] as const)('of a custom resource can be %s', (_, type, description, cell, text) => {
    expect(textOf({ name: 'Age', type, description }, cell ?? '')).toBe(text);
  });
});

it('the ages of events continue from what the server sent', () => {
  const column = { name: 'Last Seen', type: 'string', description: 'Time since this event was last seen' };
  expect(textOf(column, '3m20s', { resource: 'events' })).toBe('4m50s');
  expect(textOf(column, '3m20s')).toBe('3m20s');
});
