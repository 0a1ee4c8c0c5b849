import { podGroupsV1alpha2, pods, priorityClasses } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const pod = (spec: Partial<NonNullable<Pod['spec']>> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', ...metadata },
  spec: { containers: [{ name: 'c', image: 'x' }], ...spec },
});
const group = (priorityClassName?: string): PodGroup => ({
  metadata: { namespace: 'd', name: 'g' },
  spec: { schedulingPolicy: { gang: { minCount: 1 } }, ...(priorityClassName !== undefined && { priorityClassName }) },
});
const as = (object: unknown): Pod => object as Pod;

const high = { metadata: { name: 'high' }, value: 1000, preemptionPolicy: 'Never' };
const usual = { metadata: { name: 'usual' }, value: 7, globalDefault: true };

admissionContract('admission-priority', async () => ({
  ...(await openAdmission(plugin, { seed: (api) => api.seed(priorityClasses, high, usual) })),
  cases: [
    {
      title: 'a class by name',
      request: admissionRequest('CREATE', pods, pod({ priorityClassName: 'high' })),
      expected: 'allowed',
      check: (object) => expect(as(object).spec).toMatchObject({ priority: 1000, preemptionPolicy: 'Never' }),
    },
    {
      title: 'no class',
      request: admissionRequest('CREATE', pods, pod()),
      expected: 'allowed',
      check: (object) =>
        expect(as(object).spec).toMatchObject({ priority: 7, preemptionPolicy: 'PreemptLowerPriority', priorityClassName: 'usual' }),
    },
    {
      title: 'the matching number',
      request: admissionRequest('CREATE', pods, pod({ priorityClassName: 'high', priority: 1000 })),
      expected: 'allowed',
    },
    {
      title: 'an update without the priority',
      request: admissionRequest('UPDATE', pods, pod(), { old: pod({ priority: 5 }) }),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.priority).toBe(5),
    },
    {
      title: 'a missing class',
      request: admissionRequest('CREATE', pods, pod({ priorityClassName: 'none' })),
      expected: 'denied',
      message: 'no PriorityClass with name none was found',
    },
    {
      title: 'another priority',
      request: admissionRequest('CREATE', pods, pod({ priority: 8 })),
      expected: 'denied',
      message:
        'the integer value of priority (8) must not be provided in pod spec; priority admission controller computed 7 from the given PriorityClass name',
    },
    {
      title: 'another preemption policy',
      request: admissionRequest('CREATE', pods, pod({ priorityClassName: 'high', preemptionPolicy: 'PreemptLowerPriority' })),
      expected: 'denied',
      message: /^the string value of PreemptionPolicy \(PreemptLowerPriority\)/,
    },
    {
      title: 'a pod group with a class',
      request: admissionRequest('CREATE', podGroupsV1alpha2, group('high')),
      expected: 'allowed',
      check: (object) => expect((object as PodGroup).spec).toMatchObject({ priorityClassName: 'high', priority: 1000 }),
    },
    {
      title: 'a pod group without a class',
      request: admissionRequest('CREATE', podGroupsV1alpha2, group()),
      expected: 'allowed',
      check: (object) => expect((object as PodGroup).spec).toMatchObject({ priorityClassName: 'usual', priority: 7 }),
    },
    {
      title: 'a pod group with a missing class',
      request: admissionRequest('CREATE', podGroupsV1alpha2, group('none')),
      expected: 'denied',
      message: 'no PriorityClass with name none was found',
    },
    {
      title: 'a second default',
      request: admissionRequest('CREATE', priorityClasses, { metadata: { name: 'x' }, value: 1, globalDefault: true }),
      expected: 'denied',
      message: 'PriorityClass usual is already marked as default. Only one default can exist',
    },
    { title: 'an update of the default', request: admissionRequest('UPDATE', priorityClasses, usual, { old: usual }), expected: 'allowed' },
    {
      title: 'status',
      request: admissionRequest('UPDATE', pods, pod(), { old: pod({ priority: 5 }), subresource: 'status' }),
      expected: 'ignored',
    },
  ],
}));
