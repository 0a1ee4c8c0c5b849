import { kinds, type Kind } from '@oarlock/api/kinds';
import { resource } from '@oarlock/api/resource';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/pipeline-fixture.ts';
import { samples } from '../support/sample-objects.ts';

/** The parts of metadata that a caller of the status subresource could use to influence others. */
const parts = {
  labels: { attack: 'label' },
  annotations: { attack: 'annotation' },
  finalizers: ['example.com/attack'],
  ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'attack', uid: '1' }],
};
type Part = keyof typeof parts;
const all = Object.keys(parts) as readonly Part[];

/** The parts that the status strategies of upstream reset, by resource; none for other resources. */
const reset: Readonly<Record<string, readonly Part[]>> = {
  pods: ['ownerReferences'],
  'deployments.apps': ['labels'],
  'apiservices.apiregistration.k8s.io': all,
  'customresourcedefinitions.apiextensions.k8s.io': all,
  'flowschemas.flowcontrol.apiserver.k8s.io': all,
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': all,
  'validatingadmissionpolicies.admissionregistration.k8s.io': all,
  'servicecidrs.networking.k8s.io': all,
  'resourceclaims.resource.k8s.io': all,
  'devicetaintrules.resource.k8s.io': all,
  'resourcepoolstatusrequests.resource.k8s.io': all,
  'podcertificaterequests.certificates.k8s.io': all,
  'storageversions.internal.apiserver.k8s.io': all,
  'podgroups.scheduling.k8s.io': all,
  'storageversionmigrations.storagemigration.k8s.io': all,
  'volumeattachments.storage.k8s.io': all,
};

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ runtimeConfig: { 'api/all': true } });
});
afterAll(() => server.stop());

const keyOf = ({ group, resource: plural }: Kind): string => (group === '' ? plural : `${plural}.${group}`);
/** One version of each kind with a status. */
const withStatus = [
  ...new Map(
    kinds
      .filter((kind) => kind.subresources.some(({ name }) => name === 'status') && Object.hasOwn(samples, keyOf(kind)))
      .toReversed()
      .map((kind) => [keyOf(kind), kind] as const),
  ),
];

describe('the status subresource', () => {
  it('is tested for most kinds', () => {
    expect(withStatus.length).toBeGreaterThan(20);
  });

  it.each(withStatus)(
    'of %s changes the parts of metadata that it changes upstream, and neither spec nor deletion',
    async (key, { group, version, kind, resource: plural, namespaced }) => {
      const of = resource(group, version, plural, kind, namespaced);
      const { name = `s-${version}`, object: sample = {} } = samples[key] ?? {};
      const apiVersion = group === '' ? version : `${group}/${version}`;
      const before = await server.create(of, { apiVersion, kind, metadata: { name }, ...sample });
      const attack = { metadata: { ...parts, deletionTimestamp: '2026-01-01T00:00:00Z', generation: 77 }, spec: null };
      const after = await server
        .patch(of, name, attack, { subresource: 'status' })
        .catch(() => server.patch(of, name, { metadata: parts }, { subresource: 'status' }));
      const changed = all.filter((part) => JSON.stringify(after.metadata?.[part]) !== JSON.stringify(before.metadata?.[part]));
      expect(changed).toEqual(all.filter((part) => !(reset[key] ?? []).includes(part)));
      expect([after.metadata?.deletionTimestamp, after.metadata?.generation]).toEqual([undefined, before.metadata?.generation]);
      expect((after as { readonly spec?: unknown }).spec).toEqual((before as { readonly spec?: unknown }).spec);
    },
  );
});
