import { pods } from '@oarlock/api/resources';
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

const keys = (object: unknown) =>
  as(object).spec?.tolerations?.map(({ key, tolerationSeconds }) => `${key ?? ''} ${tolerationSeconds ?? ''}`);

admissionContract('admission-default-toleration-seconds', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    {
      title: 'none',
      request: admissionRequest('CREATE', pods, pod()),
      expected: 'allowed',
      check: (object) =>
        expect(as(object).spec?.tolerations).toEqual([
          { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
          { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
        ]),
    },
    {
      title: 'one of them',
      request: admissionRequest(
        'CREATE',
        pods,
        pod({ tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 }] }),
      ),
      expected: 'allowed',
      check: (object) => expect(keys(object)).toEqual(['node.kubernetes.io/not-ready 5', 'node.kubernetes.io/unreachable 300']),
    },
    {
      title: 'everything is tolerated',
      request: admissionRequest('CREATE', pods, pod({ tolerations: [{ operator: 'Exists' }] })),
      expected: 'ignored',
    },
    {
      title: 'another effect does not count',
      request: admissionRequest('UPDATE', pods, pod({ tolerations: [{ operator: 'Exists', effect: 'NoSchedule' }] })),
      expected: 'allowed',
      check: (object) => expect(keys(object)).toHaveLength(3),
    },
  ],
}));
