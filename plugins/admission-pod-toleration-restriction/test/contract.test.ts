import { namespaces, pods } from '@oarlock/api/resources';
import type { Pod, Toleration } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const pod = (spec: Partial<NonNullable<Pod['spec']>> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', ...metadata },
  spec: { containers: [{ name: 'c', image: 'x' }], ...spec },
});
const as = (object: unknown): Pod => object as Pod;

const own: Toleration = { key: 'team', operator: 'Equal', value: 'a', effect: 'NoSchedule' };
const space = (name: string, annotations: Record<string, string> = {}) => ({ metadata: { name, annotations } });
const inside = (namespace: string, spec: Partial<NonNullable<Pod['spec']>> = {}) =>
  admissionRequest('CREATE', pods, pod(spec, { namespace }));
const busy = [{ name: 'c', image: 'x', resources: { requests: { cpu: '1' } } }];

admissionContract('admission-pod-toleration-restriction', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        namespaces,
        space('d'),
        space('own', { 'scheduler.alpha.kubernetes.io/defaultTolerations': JSON.stringify([own]) }),
        space('narrow', { 'scheduler.alpha.kubernetes.io/tolerationsWhitelist': JSON.stringify([{ key: 'team', operator: 'Exists' }]) }),
      ),
  })),
  cases: [
    { title: 'no tolerations', request: inside('d'), expected: 'ignored' },
    {
      title: 'default tolerations of the namespace',
      request: inside('own'),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.tolerations).toEqual([own]),
    },
    {
      title: 'tolerations that cover the defaults',
      request: inside('own', { tolerations: [{ operator: 'Exists' }] }),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.tolerations).toHaveLength(1),
    },
    {
      title: 'a pod with its own tolerations',
      request: inside('d', { containers: busy }),
      expected: 'allowed',
      check: (object) =>
        expect(as(object).spec?.tolerations).toEqual([
          { key: 'node.kubernetes.io/memory-pressure', operator: 'Exists', effect: 'NoSchedule' },
        ]),
    },
    { title: 'tolerations within the whitelist', request: inside('narrow', { tolerations: [own] }), expected: 'allowed' },
    {
      title: 'tolerations outside of the whitelist',
      request: inside('narrow', { tolerations: [{ key: 'other', operator: 'Exists' }] }),
      expected: 'denied',
      message: 'pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist',
    },
  ],
}));
