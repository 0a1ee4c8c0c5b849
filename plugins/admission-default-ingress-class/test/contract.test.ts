import { ingressClasses, ingresses } from '@oarlock/api/resources';
import type { Ingress } from '@oarlock/api/types/networking-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const kind = (name: string, creationTimestamp: string, isDefault = 'true') => ({
  metadata: { name, creationTimestamp, annotations: { 'ingressclass.kubernetes.io/is-default-class': isDefault } },
});
const ingress = (spec: Ingress['spec'] = {}, annotations: Record<string, string> = {}): Ingress => ({
  metadata: { namespace: 'd', name: 'i', annotations },
  spec,
});
const chosen = (object: unknown) => (object as Ingress).spec?.ingressClassName;

admissionContract('admission-default-ingress-class', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        ingressClasses,
        kind('old', '2026-01-01T00:00:00Z'),
        kind('new', '2026-02-01T00:00:00Z'),
        kind('no', '2026-03-01T00:00:00Z', 'false'),
      ),
  })),
  cases: [
    {
      title: 'none named',
      request: admissionRequest('CREATE', ingresses, ingress()),
      expected: 'allowed',
      check: (object) => expect(chosen(object)).toBe('new'),
    },
    { title: 'one named', request: admissionRequest('CREATE', ingresses, ingress({ ingressClassName: 'no' })), expected: 'ignored' },
    {
      title: 'the old annotation',
      request: admissionRequest('CREATE', ingresses, ingress({}, { 'kubernetes.io/ingress.class': 'x' })),
      expected: 'ignored',
    },
  ],
}));
