import { expect, it } from 'vitest';
import type { KubeObject } from '../../../../src/api/client.ts';
import { topOwner } from '../../../../src/views/object/scheduling/top-owner.ts';

const reference = (kind: string, name: string) => ({ apiVersion: 'apps/v1', kind, name, uid: name, controller: true });
const object = (name: string, ...owners: readonly ReturnType<typeof reference>[]): KubeObject => ({
  metadata: { name, uid: name, resourceVersion: '1', ownerReferences: owners },
});

it('is the Deployment of the ReplicaSet of a pod, not the ReplicaSet, whose pods it would not change', async () => {
  const objects = [object('set', reference('Deployment', 'web')), object('web')];
  const read = (known: readonly KubeObject[]) => async (owner: { readonly name: string }) =>
    known.find(({ metadata }) => metadata.name === owner.name);
  const pod = object('pod', reference('ReplicaSet', 'set'));
  expect(await topOwner(pod, read(objects))).toMatchObject({ kind: 'Deployment', name: 'web' });
  expect(await topOwner(pod, read([]))).toMatchObject({ kind: 'ReplicaSet', name: 'set' });
  expect(await topOwner(object('alone'), read(objects))).toBeUndefined();
  expect(await topOwner(pod, read([object('set', reference('ReplicaSet', 'set'))]))).toMatchObject({ name: 'set' });
});
