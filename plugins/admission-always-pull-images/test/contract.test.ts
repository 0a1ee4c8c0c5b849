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

const policies = (object: unknown) =>
  [...(as(object).spec?.initContainers ?? []), ...(as(object).spec?.containers ?? [])].map(({ imagePullPolicy }) => imagePullPolicy);

admissionContract('admission-always-pull-images', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    {
      title: 'all containers',
      request: admissionRequest(
        'CREATE',
        pods,
        pod({ initContainers: [{ name: 'i', image: 'y', imagePullPolicy: 'Never' }], volumes: [{ name: 'v', image: { reference: 'z' } }] }),
      ),
      expected: 'allowed',
      check: (object) => {
        expect(policies(object)).toEqual(['Always', 'Always']);
        expect(as(object).spec?.volumes?.[0]?.image).toEqual({ reference: 'z', pullPolicy: 'Always' });
      },
    },
    {
      title: 'a new image',
      request: admissionRequest('UPDATE', pods, pod({ containers: [{ name: 'c', image: 'new', imagePullPolicy: 'IfNotPresent' }] }), {
        old: pod(),
      }),
      expected: 'allowed',
      check: (object) => expect(policies(object)).toEqual(['Always']),
    },
    {
      title: 'an update without a new image',
      request: admissionRequest('UPDATE', pods, pod({ nodeName: 'n' }), { old: pod() }),
      expected: 'ignored',
    },
  ],
}));
