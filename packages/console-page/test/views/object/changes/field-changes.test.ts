import { describe, expect, it } from 'vitest';
import type { KubeObject, ManagedFieldsEntry } from '../../../../src/api/client.ts';
import { fieldChanges } from '../../../../src/views/object/changes/field-changes.ts';

const entry = (manager: string, time: string, fieldsV1: Readonly<Record<string, unknown>>): ManagedFieldsEntry => ({
  ...{ manager, operation: 'Update', time, fieldsV1 },
});
const object = (resourceVersion: string, spec: unknown, managedFields: readonly ManagedFieldsEntry[] = []): KubeObject => ({
  metadata: { name: 'a', uid: 'u', resourceVersion, generation: Number(resourceVersion), managedFields },
  spec,
});

describe('fieldChanges', () => {
  it('returns values before and after, without the fields that every write changes', () => {
    const changes = fieldChanges(object('1', { replicas: 2, old: true }), object('2', { replicas: 3, added: { x: 'y' } }));
    expect(changes).toEqual([
      { path: 'spec.replicas', before: '2', after: '3', manager: undefined },
      { path: 'spec.old', before: 'true', after: undefined, manager: undefined },
      { path: 'spec.added', before: undefined, after: '{"x":"y"}', manager: undefined },
    ]);
    expect(fieldChanges(object('1', {}), object('2', {}, [entry('a', 't', {})]))).toEqual([]);
  });

  it('names the latest manager that owns the field, by the keys of list items', () => {
    const containers = (image: string) => ({
      containers: [
        { name: 'side', image: 's' },
        { name: 'web', image },
      ],
      args: ['x'],
      other: 1,
    });
    const owned = [
      entry('first', '2026-01-01T00:00:00Z', { 'f:spec': { 'f:containers': { 'k:{"name":"web"}': { '.': {}, 'f:image': {} } } } }),
      entry('second', '2026-01-02T00:00:00Z', { 'f:spec': { 'f:containers': { 'k:{"name":"web"}': { 'f:image': {} } } } }),
      entry('sidecars', '2026-01-03T00:00:00Z', { 'f:spec': { 'f:containers': { 'k:{"name":"side"}': { 'f:image': {} } } } }),
    ];
    const [change] = fieldChanges(object('1', containers('a'), owned), object('2', containers('b'), owned));
    expect(change).toMatchObject({ path: 'spec.containers.web.image', manager: { manager: 'second' } });
  });

  it('finds the owner of a value inside of an atomic field, of set items, and of a removed field', () => {
    const before = object('1', { atomic: { deep: [1] }, set: ['a', 'b'], gone: 1 }, [entry('old', 't1', { 'f:spec': { 'f:gone': {} } })]);
    const after = object('2', { atomic: { deep: [2] }, set: ['a', 'c'] }, [
      entry('new', 't2', { 'f:spec': { 'f:atomic': {}, 'f:set': { 'v:"c"': {} } } }),
    ]);
    expect(fieldChanges(before, after).map(({ path, manager }) => [path, manager?.manager])).toEqual([
      ['spec.atomic.deep[0]', 'new'],
      ['spec.set[1]', 'new'],
      ['spec.gone', 'old'],
    ]);
  });

  it('shortens long values', () => {
    const [change] = fieldChanges(object('1', { text: '' }), object('2', { text: 'x'.repeat(1000) }));
    expect(change?.after).toHaveLength(201);
  });
});
