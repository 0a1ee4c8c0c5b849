import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const pod = (spec: Partial<NonNullable<Pod['spec']>> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', ...metadata },
  spec: { containers: [{ name: 'c', image: 'x' }], ...spec },
});

const apart = (topologyKey: string) =>
  pod({ affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey }] } } });

admissionContract('admission-limit-pod-hard-anti-affinity-topology', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    { title: 'by node', request: admissionRequest('CREATE', pods, apart('kubernetes.io/hostname')), expected: 'allowed' },
    { title: 'none', request: admissionRequest('CREATE', pods, pod()), expected: 'allowed' },
    {
      title: 'by zone',
      request: admissionRequest('CREATE', pods, apart('zone')),
      expected: 'denied',
      message: 'affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed',
    },
  ],
}));
