import { pods, runtimeClasses } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const pod = (spec: Partial<NonNullable<Pod['spec']>> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', ...metadata },
  spec: { containers: [{ name: 'c', image: 'x' }], ...spec },
});
const as = (object: unknown): Pod => object as Pod;

admissionContract('admission-runtime-class', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        runtimeClasses,
        { metadata: { name: 'plain' }, handler: 'runc' },
        {
          metadata: { name: 'vm' },
          handler: 'kata',
          overhead: { podFixed: { cpu: '250m' } },
          scheduling: { nodeSelector: { kata: 'yes' }, tolerations: [{ key: 'kata', operator: 'Exists' }] },
        },
      ),
  })),
  cases: [
    {
      title: 'a class with overhead and scheduling',
      request: admissionRequest('CREATE', pods, pod({ runtimeClassName: 'vm', nodeSelector: { a: 'b' } })),
      expected: 'allowed',
      check: (object) =>
        expect(as(object).spec).toMatchObject({
          overhead: { cpu: '250m' },
          nodeSelector: { a: 'b', kata: 'yes' },
          tolerations: [{ key: 'kata', operator: 'Exists' }],
        }),
    },
    { title: 'a plain class', request: admissionRequest('CREATE', pods, pod({ runtimeClassName: 'plain' })), expected: 'ignored' },
    { title: 'no class', request: admissionRequest('CREATE', pods, pod()), expected: 'ignored' },
    {
      title: 'a missing class',
      request: admissionRequest('CREATE', pods, pod({ runtimeClassName: 'none' })),
      expected: 'denied',
      message: 'pod rejected: RuntimeClass "none" not found',
    },
    {
      title: 'another overhead',
      request: admissionRequest('CREATE', pods, pod({ runtimeClassName: 'vm', overhead: { cpu: '1' } })),
      expected: 'denied',
      message: "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    },
    {
      title: 'overhead without a class',
      request: admissionRequest('CREATE', pods, pod({ overhead: { cpu: '1' } })),
      expected: 'denied',
      message: 'pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead',
    },
    {
      title: 'another node selector',
      request: admissionRequest('CREATE', pods, pod({ runtimeClassName: 'vm', nodeSelector: { kata: 'no' } })),
      expected: 'denied',
      message: 'conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no',
    },
  ],
}));
