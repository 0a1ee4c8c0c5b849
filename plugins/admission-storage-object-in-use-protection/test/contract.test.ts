import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

admissionContract('admission-storage-object-in-use-protection', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    {
      title: 'a claim',
      request: admissionRequest('CREATE', persistentVolumeClaims, { metadata: { namespace: 'd', name: 'c', finalizers: ['a/b'] } }),
      expected: 'allowed',
      check: (object) => expect(object?.metadata?.finalizers).toEqual(['a/b', 'kubernetes.io/pvc-protection']),
    },
    {
      title: 'a volume',
      request: admissionRequest('CREATE', persistentVolumes, { metadata: { name: 'v' } }),
      expected: 'allowed',
      check: (object) => expect(object?.metadata?.finalizers).toEqual(['kubernetes.io/pv-protection']),
    },
    {
      title: 'it is there',
      request: admissionRequest('CREATE', persistentVolumes, { metadata: { name: 'v', finalizers: ['kubernetes.io/pv-protection'] } }),
      expected: 'ignored',
    },
  ],
}));
