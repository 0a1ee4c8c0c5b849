import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const taint = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };
const taints = (object: unknown) => (object as Node).spec?.taints;

admissionContract('admission-taint-nodes-by-condition', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    {
      title: 'a new node',
      request: admissionRequest('CREATE', nodes, { metadata: { name: 'n' } }),
      expected: 'allowed',
      check: (object) => expect(taints(object)).toEqual([taint]),
    },
    {
      title: 'other taints stay',
      request: admissionRequest('CREATE', nodes, { metadata: { name: 'n' }, spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } }),
      expected: 'allowed',
      check: (object) => expect(taints(object)).toEqual([{ key: 'a', effect: 'NoExecute' }, taint]),
    },
    {
      title: 'it is there',
      request: admissionRequest('CREATE', nodes, { metadata: { name: 'n' }, spec: { taints: [taint] } }),
      expected: 'ignored',
    },
    { title: 'an update', request: admissionRequest('UPDATE', nodes, { metadata: { name: 'n' } }), expected: 'ignored' },
  ],
}));
