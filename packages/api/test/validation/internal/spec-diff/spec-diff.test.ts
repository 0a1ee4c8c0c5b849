import { describe, expect, it } from 'vitest';
import type { PodSpec } from '../../../../src/generated/types/core-v1.ts';
import { schemaTable } from '../../../../src/generated/schema-table.ts';
import { internalTypes } from '../../../../src/validation/internal/spec-diff/internal-types.ts';
import {
  claimSpecDiff,
  ephemeralContainerDiff,
  podSpecDiff,
  volumeSourceDiff,
} from '../../../../src/validation/internal/spec-diff/spec-diff.ts';

const spec: PodSpec = { containers: [{ name: 'a', image: 'x' }], terminationGracePeriodSeconds: 30, securityContext: {} };
const changes = (text: string) => text.split('\n').filter((line) => /^[-+]/.test(line));

describe('differences of specs', () => {
  it('are unified diffs of the internal types in JSON', () => {
    expect(podSpecDiff(spec, { ...spec, hostname: 'x' })).toBe(
      [
        '@@ -64,7 +64,7 @@',
        '     "SELinuxChangePolicy": null',
        '   },',
        '   "ImagePullSecrets": null,',
        '-  "Hostname": "",',
        '+  "Hostname": "x",',
        '   "Subdomain": "",',
        '   "SetHostnameAsFQDN": null,',
        '   "Affinity": null,',
        '',
      ].join('\n'),
    );
  });

  it('show host namespaces in the security context', () => {
    expect(changes(podSpecDiff(spec, { ...spec, hostNetwork: true }))).toEqual(['-    "HostNetwork": false,', '+    "HostNetwork": true,']);
    expect(changes(podSpecDiff({ containers: [] }, { containers: [], hostUsers: false }))).toContain('+    "HostUsers": false,');
  });

  it('sort the keys of maps and escape HTML', () => {
    const before = { ...spec, nodeSelector: { b: '<1>', a: '2' } };
    expect(podSpecDiff(before, { ...before, dnsPolicy: 'Default' })).toContain(
      '   "NodeSelector": {\n     "a": "2",\n     "b": "\\u003c1\\u003e"\n',
    );
  });

  it('show probes, projections and fields with other names', () => {
    const container = { name: 'a', image: 'x', livenessProbe: { httpGet: { path: '/', port: 'http' } } };
    const probe = { ...container, livenessProbe: { httpGet: { path: '/', port: 80 } } };
    expect(changes(podSpecDiff({ containers: [container] }, { containers: [probe] }))).toEqual(
      ['-        "Port": "http",', '+        "Port": 80,'].map((line) => line.replace('        ', '          ')),
    );
    expect(changes(volumeSourceDiff({ rbd: { image: 'a', monitors: ['m'] } }, { rbd: { image: 'b', monitors: ['m'] } }))).toEqual([
      '-    "RBDImage": "a",',
      '+    "RBDImage": "b",',
    ]);
    expect(changes(claimSpecDiff({ accessModes: ['A'] }, { accessModes: ['B'] }))).toEqual(['-    "A"', '+    "B"']);
    expect(changes(ephemeralContainerDiff({ name: 'e', image: 'x' }, { name: 'e', image: 'y', tty: true }))).toEqual([
      '-  "Image": "x",',
      '+  "Image": "y",',
      '-  "TTY": false,',
      '+  "TTY": true,',
    ]);
  });
});

const definitions = JSON.parse(schemaTable['core/v1'] ?? '{}') as Readonly<Record<string, object>>;
const definitionOf = (type: string) => Object.keys(definitions[type] ?? {}).filter((name) => name !== '');

describe('internal types', () => {
  const jsonNames = (type: string): readonly string[] =>
    (internalTypes[type] ?? '').split(' ').flatMap((field) => {
      const [, embedded, name = '', , json = name] = /^(~?)([A-Za-z]+)(.*?)(?:\/([A-Za-z]+))?$/.exec(field) ?? [];
      return embedded ? jsonNames(name) : [json.toLowerCase()];
    });
  const inSecurityContext = ['hostnetwork', 'hostpid', 'hostipc', 'shareprocessnamespace', 'hostusers'];

  it.each([
    ['PodSpec', 'PodSpec', ['serviceaccount', ...inSecurityContext]],
    ['PodSecurityContext', 'PodSecurityContext', []],
    ['Container', 'Container', []],
    ['EphemeralContainer', 'EphemeralContainer', []],
    ['SecurityContext', 'SecurityContext', []],
    ['Volume', 'Volume', []],
    ['VolumeProjection', 'VolumeProjection', []],
    ['Probe', 'Probe', []],
    ['TopologySpreadConstraint', 'TopologySpreadConstraint', []],
    ['PodAffinityTerm', 'PodAffinityTerm', []],
    ['PersistentVolumeClaimSpec', 'PersistentVolumeClaimSpec', []],
    ['CSIPersistent', 'CSIPersistentVolumeSource', []],
  ])('have all fields of the versioned type: %s', (internal, versioned, elsewhere) => {
    const own = jsonNames(internal).filter((name) => internal !== 'PodSecurityContext' || !inSecurityContext.includes(name));
    expect([...own, ...elsewhere].sort()).toEqual(
      definitionOf(versioned)
        .map((name) => name.replace('!', '').toLowerCase())
        .sort(),
    );
  });

  it('name only types of the table', () => {
    const named = Object.values(internalTypes).flatMap((fields) =>
      Array.from(fields.matchAll(/=(?:\*|\[\])?([A-Za-z]+)/g), ([, type]) => type),
    );
    expect(named.filter((type) => type !== undefined && !Object.hasOwn(internalTypes, type))).toEqual([]);
  });
});
