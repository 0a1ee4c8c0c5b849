import { persistentVolumeClaims, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const claim = (storage: string, storageClassName = 'grows', phase = 'Bound'): PersistentVolumeClaim => ({
  metadata: { namespace: 'd', name: 'c' },
  spec: { storageClassName, resources: { requests: { storage } } },
  status: { phase },
});
const update = (next: PersistentVolumeClaim, old: PersistentVolumeClaim) =>
  admissionRequest('UPDATE', persistentVolumeClaims, next, { old });
const message = 'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize';

admissionContract('admission-persistent-volume-claim-resize', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        storageClasses,
        { metadata: { name: 'grows' }, provisioner: 'x', allowVolumeExpansion: true },
        { metadata: { name: 'fixed' }, provisioner: 'x' },
      ),
  })),
  cases: [
    { title: 'it grows', request: update(claim('2Gi'), claim('1Gi')), expected: 'allowed' },
    { title: 'it stays', request: update(claim('1024Mi', 'fixed'), claim('1Gi', 'fixed')), expected: 'allowed' },
    {
      title: 'a class without allowVolumeExpansion',
      request: update(claim('2Gi', 'fixed'), claim('1Gi', 'fixed')),
      expected: 'denied',
      message,
    },
    { title: 'a missing class', request: update(claim('2Gi', 'none'), claim('1Gi', 'none')), expected: 'denied', message },
    { title: 'no class', request: update(claim('2Gi', ''), claim('1Gi', '')), expected: 'denied', message },
    {
      title: 'not bound',
      request: update(claim('2Gi'), claim('1Gi', 'grows', 'Pending')),
      expected: 'denied',
      message: 'Only bound persistent volume claims can be expanded',
    },
  ],
}));
