import { pods } from '@oarlock/api/resources';
import type { Attributes } from '@oarlock/spi/authz';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const owner = (kind: string, blockOwnerDeletion = false, apiVersion = 'apps/v1') => ({
  apiVersion,
  kind,
  name: 'o',
  uid: `uid-${kind}`,
  blockOwnerDeletion,
});
const pod = (...ownerReferences: ReturnType<typeof owner>[]) => ({ metadata: { namespace: 'd', name: 'p', ownerReferences } });
const rejection = (user: string) => ({ identity: { name: user, groups: [] } });
const allows = (asked: Attributes) =>
  asked.kind === 'resource' &&
  ((asked.verb === 'delete' && asked.resource === 'pods' && asked.identity.name !== 'none') ||
    (asked.verb === 'update' &&
      ['replicasets apps d', 'rockets example.com d', 'bases example.com '].includes(
        `${asked.resource} ${asked.group} ${asked.namespace}`,
      ) &&
      asked.subresource === 'finalizers' &&
      asked.name === 'o' &&
      asked.identity.name === 'both'));
const served = {
  kind: 'APIResourceList',
  resources: [
    { name: 'rockets', kind: 'Rocket', namespaced: true },
    { name: 'rockets/scale', kind: 'Scale', namespaced: true },
    { name: 'bases', kind: 'Base', namespaced: false },
  ],
};

admissionContract('admission-owner-references-permission-enforcement', async () => ({
  plugin: (await openAdmission(plugin, { allows, seed: (api) => void api.paths.set('/apis/example.com/v1', served) })).plugin,
  cases: [
    { title: 'no owner', request: admissionRequest('CREATE', pods, pod(), rejection('none')), expected: 'allowed' },
    {
      title: 'unchanged owners',
      request: admissionRequest('UPDATE', pods, pod(owner('ReplicaSet')), { ...rejection('none'), old: pod(owner('ReplicaSet')) }),
      expected: 'allowed',
    },
    {
      title: 'a user with permission to delete',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet')), rejection('one')),
      expected: 'allowed',
    },
    {
      title: 'a user without permission to delete',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet')), rejection('none')),
      expected: 'denied',
      message: /^cannot set an ownerRef on a resource you can't delete: /,
    },
    {
      title: 'removal of an owner without permission to delete',
      request: admissionRequest('UPDATE', pods, pod(), { ...rejection('none'), old: pod(owner('ReplicaSet')) }),
      expected: 'denied',
    },
    {
      title: 'blocking by a user with permission to update finalizers',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet', true)), rejection('both')),
      expected: 'allowed',
    },
    {
      title: 'blocking by a user without permission to update finalizers',
      request: admissionRequest('CREATE', pods, pod(owner('ReplicaSet', true)), rejection('one')),
      expected: 'denied',
      message: /^cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: /,
    },
    {
      title: 'an owner of an unknown kind',
      request: admissionRequest('CREATE', pods, pod(owner('Rocket', true)), rejection('both')),
      expected: 'denied',
      message: /cannot find RESTMapping for APIVersion apps\/v1 Kind Rocket/,
    },
    ...(['Rocket', 'Base'] as const).map((kind) => ({
      title: `a custom ${kind} by a user with permission to update its finalizers`,
      request: admissionRequest('CREATE', pods, pod(owner(kind, true, 'example.com/v1')), rejection('both')),
      expected: 'allowed' as const,
    })),
    ...(['Rocket', 'Base'] as const).map((kind) => ({
      title: `a custom ${kind} by a user without permission to update its finalizers`,
      request: admissionRequest('UPDATE', pods, pod(owner(kind, true, 'example.com/v1')), {
        ...rejection('one'),
        old: pod(owner(kind, false, 'example.com/v1')),
      }),
      expected: 'denied' as const,
      message: /^cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: /,
    })),
    ...(['example.com/v2', 'example.com/v1/../v1', '../v1', 'a?b/v1', 'example.com/'] as const).map((apiVersion) => ({
      title: `an owner of the version ${apiVersion}, which is not served`,
      request: admissionRequest('CREATE', pods, pod(owner('Rocket', true, apiVersion)), rejection('both')),
      expected: 'denied' as const,
      message: /cannot find RESTMapping/,
    })),
    {
      title: 'the kind of a subresource',
      request: admissionRequest('CREATE', pods, pod(owner('Scale', true, 'example.com/v1')), rejection('both')),
      expected: 'denied',
      message: /cannot find RESTMapping/,
    },
    {
      title: 'status of a pod',
      request: admissionRequest('UPDATE', pods, pod(owner('ReplicaSet')), { ...rejection('none'), old: pod(), subresource: 'status' }),
      expected: 'allowed',
    },
  ],
}));
