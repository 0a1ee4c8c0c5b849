import { namespaces, pods } from '@oarlock/api/resources';
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

const space = (name: string, selector?: string) => ({
  metadata: { name, ...(selector !== undefined && { annotations: { 'scheduler.alpha.kubernetes.io/node-selector': selector } }) },
});
const inside = (namespace: string, nodeSelector: Record<string, string> = {}) =>
  admissionRequest('CREATE', pods, pod({ nodeSelector }, { namespace }));

admissionContract('admission-pod-node-selector', async () => ({
  ...(await openAdmission(plugin, {
    config: { clusterDefaultNodeSelector: 'env=prod', namespaces: { narrow: 'env=dev,disk=ssd' } },
    seed: (api) => api.seed(namespaces, space('d'), space('own', 'env=dev'), space('narrow', 'env=dev')),
  })),
  cases: [
    {
      title: 'the default',
      request: inside('d'),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.nodeSelector).toEqual({ env: 'prod' }),
    },
    {
      title: 'the selector of the namespace',
      request: inside('own', { a: 'b' }),
      expected: 'allowed',
      check: (object) => expect(as(object).spec?.nodeSelector).toEqual({ a: 'b', env: 'dev' }),
    },
    { title: 'labels within the whitelist', request: inside('narrow', { disk: 'ssd' }), expected: 'allowed' },
    {
      title: 'another value',
      request: inside('own', { env: 'prod' }),
      expected: 'denied',
      message: 'pod node label selector conflicts with its namespace node label selector',
    },
    {
      title: 'labels outside of the whitelist',
      request: inside('narrow', { a: 'b' }),
      expected: 'denied',
      message: 'pod node label selector labels conflict with its namespace whitelist',
    },
  ],
}));
