import type { PodSpec } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { withAppArmorFields } from '../../../src/registry/strategies/pod-apparmor.ts';

const prefix = 'container.apparmor.security.beta.kubernetes.io/';
const deprecated = (name: string) =>
  `metadata.annotations[${prefix}${name}]: deprecated since v1.30; use the "appArmorProfile" field instead`;
function synced(spec: PodSpec, annotations: Readonly<Record<string, string>>) {
  const warnings: string[] = [];
  const { containers, initContainers } = withAppArmorFields(spec, annotations, (message) => warnings.push(message));
  const profiles = [...(initContainers ?? []), ...containers].map(({ securityContext }) => securityContext?.appArmorProfile);
  return { profiles, warnings };
}

describe('AppArmor annotations of a new pod', () => {
  it.each([
    ['unconfined', { type: 'Unconfined' }],
    ['runtime/default', { type: 'RuntimeDefault' }],
    ['localhost/foo', { type: 'Localhost', localhostProfile: 'foo' }],
    ['localhost/', undefined],
    ['localhost/ foo', undefined],
    ['other', undefined],
  ])('%s sets the field of the container to %j', (annotation, profile) => {
    expect(synced({ containers: [{ name: 'c' }] }, { [`${prefix}c`]: annotation })).toEqual({
      profiles: [profile],
      warnings: [deprecated('c')],
    });
  });

  it('do not replace fields, nor repeat the profile of the pod', () => {
    const spec: PodSpec = {
      securityContext: { appArmorProfile: { type: 'RuntimeDefault' } },
      initContainers: [{ name: 'i', securityContext: { appArmorProfile: { type: 'Unconfined' } } }],
      containers: [{ name: 'c' }, { name: 'd' }],
    };
    const annotations = { [`${prefix}i`]: 'runtime/default', [`${prefix}c`]: 'runtime/default', [`${prefix}d`]: 'unconfined' };
    expect(synced(spec, annotations)).toEqual({
      profiles: [{ type: 'Unconfined' }, undefined, { type: 'Unconfined' }],
      warnings: [deprecated('d')],
    });
  });

  it('are ignored on Windows', () => {
    const { profiles } = synced({ os: { name: 'windows' }, containers: [{ name: 'c' }] }, { [`${prefix}c`]: 'unconfined' });
    expect(profiles).toEqual([undefined]);
  });
});
