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

const asking = (name: string): Pod => pod({ containers: [{ name: 'c', image: 'x', resources: { requests: { cpu: '1', [name]: '2' } } }] });

admissionContract('admission-extended-resource-toleration', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    {
      title: 'an extended resource',
      request: admissionRequest('CREATE', pods, asking('example.com/gpu')),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.tolerations).toEqual([{ key: 'example.com/gpu', operator: 'Exists' }]),
    },
    { title: 'a native one', request: admissionRequest('CREATE', pods, asking('hugepages-2Mi')), expected: 'ignored' },
    { title: "one of Kubernetes' own", request: admissionRequest('CREATE', pods, asking('x.kubernetes.io/y')), expected: 'ignored' },
  ],
}));
