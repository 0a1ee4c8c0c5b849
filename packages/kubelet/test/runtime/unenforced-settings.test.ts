import type { Limitation } from '@oarlock/spi/runtime';
import { describe, expect, it } from 'vitest';
import { unenforcedInPod, unenforcedSettings } from '../../src/runtime/unenforced-settings.ts';

const features = [
  ...([
    'resources',
    'huge-pages',
    'seccomp',
    'apparmor',
    'selinux',
    'users',
    'namespaces',
    'capabilities',
    'privileged',
    'network',
    'mounts',
  ] as const),
];
const limitations: readonly Limitation[] = features.map((feature) => ({ feature, message: `no ${feature}` }));
const inPod = (spec: object, container: object = {}) =>
  unenforcedInPod({ spec: { ...spec, containers: [{ name: 'main', ...container }] } }, { limitations });

describe('settings that are not enforced', () => {
  it('are listed by runtime, and undefined if no runtime reports them', () => {
    expect(unenforcedSettings([{ handler: 'other', limitations: undefined }])).toBeUndefined();
    expect(unenforcedSettings([{ handler: 'good', limitations: [] }])).toEqual([]);
    const runtimes = [
      { handler: 'other', limitations: undefined },
      { handler: 'oci', limitations: limitations.slice(0, 2) },
    ];
    expect(unenforcedSettings(runtimes)).toEqual(['oci: no resources; no huge-pages']);
    const onRequest = limitations.slice(0, 2).map((limitation) => ({ ...limitation, onRequest: true }));
    expect(unenforcedSettings([{ handler: 'oci', limitations: onRequest }])).toEqual([]);
  });

  it('concern a pod only if it requests them', () => {
    expect(inPod({})).toEqual([]);
    expect(inPod({ securityContext: { seccompProfile: { type: 'Unconfined' } } }, { resources: { requests: { cpu: '1' } } })).toEqual([]);
    expect(inPod({}, { resources: { limits: { cpu: '1' } } })).toEqual(['no resources']);
    expect(inPod({ resources: { limits: { cpu: '1' } } })).toEqual(['no resources']);
    expect(inPod({ securityContext: { seccompProfile: { type: 'RuntimeDefault' } } })).toEqual(['no seccomp']);
    expect(inPod({}, { securityContext: { seccompProfile: { type: 'Localhost' } } })).toEqual(['no seccomp']);
    expect(inPod({}, { securityContext: { appArmorProfile: { type: 'RuntimeDefault' } } })).toEqual(['no apparmor']);
    expect(inPod({}, { securityContext: { runAsUser: 1000 } })).toEqual(['no users']);
    expect(inPod({ securityContext: { fsGroup: 1000 } })).toEqual(['no users']);
    expect(inPod({ securityContext: { supplementalGroups: [1] } })).toEqual(['no users']);
    expect(inPod({ securityContext: { seLinuxOptions: { level: 's0' } } })).toEqual(['no selinux']);
    expect(inPod({}, { securityContext: { privileged: true } })).toEqual(['no privileged']);
    expect(inPod({}, { resources: { limits: { 'hugepages-2Mi': '2Mi' } } })).toEqual(['no resources', 'no huge-pages']);
    expect(inPod({ shareProcessNamespace: true })).toEqual(['no namespaces']);
    expect(inPod({}, { securityContext: { capabilities: { add: ['ALL'] } } })).toEqual(['no capabilities']);
    expect(inPod({}, { securityContext: { capabilities: { add: ['NET_BIND_SERVICE'] } } })).toEqual([]);
  });
});
