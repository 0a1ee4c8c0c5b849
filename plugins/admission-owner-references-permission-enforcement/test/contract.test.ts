import { pods } from '@oarlock/api/resources';
import type { Attributes } from '@oarlock/spi/authz';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const owner = (kind: string, blockOwnerDeletion = false) => ({
  apiVersion: 'apps/v1',
  kind,
  name: 'o',
  uid: `uid-${kind}`,
  blockOwnerDeletion,
});
const pod = (...ownerReferences: ReturnType<typeof owner>[]) => ({ metadata: { namespace: 'd', name: 'p', ownerReferences } });
const said = (user: string) => ({ identity: { name: user, groups: [] } });
const allows = (asked: Attributes) =>
  asked.kind === 'resource' &&
  ((asked.verb === 'delete' && asked.resource === 'pods' && asked.identity.name !== 'none') ||
    (asked.verb === 'update' && asked.resource === 'replicasets' && asked.subresource === 'finalizers' && asked.identity.name === 'both'));

admissionContract('admission-owner-references-permission-enforcement', async () => ({
  plugin: (await openAdmission(plugin, { allows })).plugin,
  cases: [
    { title: 'no owner', request: admissionRequest('CREATE', pods, pod(), said('none')), expected: 'allowed' },
    {
      title: 'the same owners',
      request: admissionRequest('UPDATE', pods, pod(owner('ReplicaSet')), { ...said('none'), old: pod(owner('ReplicaSet')) }),
      expected: 'allowed',
    },
    { title: 'who may delete', request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet')), said('one')), expected: 'allowed' },
    {
      title: 'who may not',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet')), said('none')),
      expected: 'denied',
      message: /^cannot set an ownerRef on a resource you can't delete: /,
    },
    {
      title: 'who takes one away and may not',
      request: admissionRequest('UPDATE', pods, pod(), { ...said('none'), old: pod(owner('ReplicaSet')) }),
      expected: 'denied',
    },
    {
      title: 'who may block',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet', true)), said('both')),
      expected: 'allowed',
    },
    {
      title: 'who may not block',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet', true)), said('one')),
      expected: 'denied',
      message: /^cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: /,
    },
    {
      title: 'an owner of no known kind',
      request: admissionRequest('CREATE', pods, pod(owner('Rocket', true)), said('both')),
      expected: 'denied',
      message: /cannot find RESTMapping for APIVersion apps\/v1 Kind Rocket/,
    },
    {
      title: 'status of a pod',
      request: admissionRequest('UPDATE', pods, pod(owner('ReplicaSet')), { ...said('none'), old: pod(), subresource: 'status' }),
      expected: 'allowed',
    },
  ],
}));
