import { persistentVolumeClaims, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const kind = (name: string, creationTimestamp: string, isDefault = 'true') => ({
  metadata: { name, creationTimestamp, annotations: { 'storageclass.kubernetes.io/is-default-class': isDefault } },
  provisioner: 'x',
});
const claim = (spec: PersistentVolumeClaim['spec'] = {}, annotations: Record<string, string> = {}): PersistentVolumeClaim => ({
  metadata: { namespace: 'd', name: 'c', annotations },
  spec,
});
const chosen = (object: unknown) => (object as PersistentVolumeClaim).spec?.storageClassName;

admissionContract('admission-default-storage-class', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        storageClasses,
        kind('old', '2026-01-01T00:00:00Z'),
        kind('new', '2026-02-01T00:00:00Z'),
        kind('other', '2026-03-01T00:00:00Z', 'false'),
      ),
  })),
  cases: [
    {
      title: 'none named',
      request: admissionRequest('CREATE', persistentVolumeClaims, claim()),
      expected: 'allowed',
      check: (object) => expect(chosen(object)).toBe('new'),
    },
    {
      title: 'one named',
      request: admissionRequest('CREATE', persistentVolumeClaims, claim({ storageClassName: 'other' })),
      expected: 'allowed',
      check: (object) => expect(chosen(object)).toBe('other'),
    },
    {
      title: 'an explicitly empty class',
      request: admissionRequest('CREATE', persistentVolumeClaims, claim({ storageClassName: '' })),
      expected: 'ignored',
    },
    {
      title: 'the old annotation',
      request: admissionRequest('CREATE', persistentVolumeClaims, claim({}, { 'volume.beta.kubernetes.io/storage-class': 'x' })),
      expected: 'ignored',
    },
    { title: 'an update', request: admissionRequest('UPDATE', persistentVolumeClaims, claim()), expected: 'ignored' },
  ],
}));
