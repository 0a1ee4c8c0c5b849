import { pods } from '@oarlock/api/resources';
import type { PodSpec } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import plugin from '../src/plugin.ts';

const create = (spec: Partial<PodSpec>) =>
  admissionRequest('CREATE', pods, { metadata: { namespace: 'd', name: 'p' }, spec: { containers: [{ name: 'c' }], ...spec } });
const denied: readonly (readonly [string, Partial<PodSpec>, string])[] = [
  ['groups', { securityContext: { supplementalGroups: [1] } }, 'pod.Spec.SecurityContext.SupplementalGroups is forbidden'],
  ['a label', { securityContext: { seLinuxOptions: { level: 'x' } } }, 'pod.Spec.SecurityContext.SELinuxOptions is forbidden'],
  ['a user', { securityContext: { runAsUser: 0 } }, 'pod.Spec.SecurityContext.RunAsUser is forbidden'],
  ['an fsGroup', { securityContext: { fsGroup: 1 } }, 'pod.Spec.SecurityContext.FSGroup is forbidden'],
  ['a user in a container', { containers: [{ name: 'c', securityContext: { runAsUser: 1 } }] }, 'SecurityContext.RunAsUser is forbidden'],
  [
    'an SELinux label in an init container',
    { initContainers: [{ name: 'i', securityContext: { seLinuxOptions: {} } }] },
    'SecurityContext.SELinuxOptions is forbidden',
  ],
];

admissionContract('admission-security-context-deny', () => {
  const [created] = new PluginHost().add({ plugin }).get(Admission);
  if (created === undefined) throw new Error('not created');
  return {
    plugin: created,
    cases: [
      ...denied.map(([title, spec, message]) => ({ title, request: create(spec), expected: 'denied' as const, message })),
      { title: 'none of these fields', request: create({ securityContext: { runAsNonRoot: true } }), expected: 'allowed' },
      { title: 'a deletion', request: admissionRequest('DELETE', pods, undefined), expected: 'ignored' },
    ],
  };
});
