import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { expect, it } from 'vitest';
import { changedKeys, withoutConfigs } from '../../src/dev/changed-keys.ts';

const specOf = (spec: object) => clusterSchema.parse({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }).spec;
const changesFrom = (before: object, after: object) => {
  const isOwn = ({ use }: { readonly use: string }) => use.startsWith('./');
  return changedKeys(withoutConfigs(specOf(before), isOwn), withoutConfigs(specOf(after), isOwn));
};

it('a changed placement of a plugin under development is no change of the rest of the file', () => {
  const before = { admission: ['admission-priority', './own.ts'] };
  expect(changesFrom(before, { admission: ['admission-priority', { use: './own.ts', placement: 'thread', config: { a: 1 } }] })).toEqual(
    [],
  );
});

it('other changes are named by their keys', () => {
  const before = { admission: ['admission-priority', './own.ts'], proxy: 'proxy-userspace' };
  expect(changesFrom(before, { admission: ['./own.ts', 'admission-priority'], settings: { kubelet: { maxPods: 3 } } })).toEqual([
    'admission',
    'proxy',
    'settings',
  ]);
  expect(changesFrom(before, { ...before, admission: ['admission-priority', { use: './own.ts', name: 'other' }] })).toEqual(['admission']);
});
