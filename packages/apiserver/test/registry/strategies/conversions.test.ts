import { isObject } from '@oarlock/api/json/json';
import { kinds, type Kind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource, resource } from '@oarlock/api/resource';
import { schemaOf } from '@oarlock/api/schema/schema';
import { describe, expect, it } from 'vitest';
import { enabledKinds } from '../../../src/pipeline/runtime-config.ts';
import { versionConversions } from '../../../src/registry/strategies/conversions.ts';
import { rejectionOf, TestServer } from '../../support/pipeline-fixture.ts';
import { samples, type Sample } from '../../support/sample-objects.ts';

const everything = { 'api/all': true };
// the server controls CustomResourceDefinitions itself; they have tests of their own
const stored = kinds.filter(
  ({ verbs, resource: name }) => verbs.includes('create') && verbs.includes('get') && name !== 'customresourcedefinitions',
);
const titleOf = (kind: Kind) => `${kind.group === '' ? '' : `${kind.group}/`}${kind.version} ${kind.resource}`;

/** Returns the sample in the given version. */
function sampleOf(kind: Kind): Sample & { readonly body: KubeObject } {
  const sample = samples[groupResource(kind)];
  if (sample === undefined) throw new Error(`no sample of ${titleOf(kind)}`);
  const { group, version } = kind;
  const body = { kind: kind.kind, apiVersion: apiVersionOf({ group, version }), metadata: { name: sample.name ?? 'x' }, ...sample.object };
  const other = versionConversions.get(`${group}/${version}/${kind.resource}`);
  if (other === undefined || groupResource(kind).startsWith('horizontal')) return { ...sample, body };
  return { ...sample, body: other.conversion.fromStored({ ...body, apiVersion: body.apiVersion } as KubeObject) };
}
const part = (object: KubeObject, name: string) => (object as unknown as Readonly<Record<string, unknown>>)[name];

describe.each(stored.map((kind) => [titleOf(kind), kind] as const))('%s', (_, kind) => {
  const described = resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
  const namespace = kind.namespaced ? 'default' : '';
  const at = { namespace };
  const sub = (name: string) => kind.subresources.some((candidate) => candidate.name === name);
  const started = async () => {
    const server = new TestServer({ runtimeConfig: everything });
    await server.pipeline.start(new AbortController().signal);
    return server;
  };
  const eventV1 = kind.group === 'events.k8s.io';
  const body = (): Sample & { readonly body: KubeObject } =>
    eventV1
      ? {
          generation: false,
          object: {},
          body: {
            kind: 'Event',
            apiVersion: 'events.k8s.io/v1',
            metadata: { name: 'x' },
            ...{
              eventTime: '2026-01-01T00:00:00.000000Z',
              reportingController: 'example.com/c',
              reportingInstance: 'i',
              action: 'A',
              reason: 'R',
              type: 'Normal',
              regarding: { namespace: 'default', name: 'x', kind: 'Pod' },
            },
          } as KubeObject,
        }
      : sampleOf(kind);

  it('supports all verbs', async () => {
    const server = await started();
    const sample = body();
    const name = sample.body.metadata?.name ?? '';
    const watching = await server.watch(described, { resourceVersion: String(server.pipeline.revision) }, at);
    const createdObject = await server.create(
      described,
      {
        ...sample.body,
        metadata: { ...sample.body.metadata, generation: 7, uid: 'mine', resourceVersion: '', managedFields: [] },
        ...(sample.status !== undefined && { status: sample.status }),
      } as KubeObject,
      at,
    );
    expect(createdObject).toMatchObject({
      kind: kind.kind,
      apiVersion: apiVersionOf(kind),
      metadata: { name, creationTimestamp: '2026-01-01T00:00:00Z' },
    });
    expect(createdObject.metadata?.uid).not.toBe('mine');
    expect(createdObject.metadata?.namespace ?? '').toBe(namespace);
    if (sample.generation === false) expect(createdObject.metadata).not.toHaveProperty('generation');
    else
      expect(createdObject.metadata?.generation).toBe(
        sample.change === undefined && sample.generation !== 'created' ? createdObject.metadata?.generation : 1,
      );
    if (sub('status') && sample.status !== undefined && sample.keepsStatus !== true)
      for (const [key, value] of Object.entries(sample.status))
        if (key !== 'loadBalancer' && key !== 'phase' && value !== 0)
          expect(part(createdObject, 'status') ?? {}).not.toHaveProperty(key, value);

    expect(await server.get(described, name, at)).toEqual(createdObject);
    expect((await server.list(described, {}, at)).names).toEqual([name]);
    expect((await server.list(described, { fieldSelector: `metadata.name=${name}` })).names).toEqual([name]);
    expect((await server.list(described, { labelSelector: 'none=such' }, at)).names).toEqual([]);

    const labelled = await server.patch(described, name, { metadata: { labels: { l: 'm' } } }, at);
    expect(labelled.metadata?.labels).toMatchObject({ l: 'm' });
    if (kind.resource !== 'endpointslices') expect(labelled.metadata?.generation).toBe(createdObject.metadata?.generation);
    const annotated = await server.update(
      described,
      { ...labelled, metadata: { ...labelled.metadata, finalizers: ['example.com/held'] } },
      { ...at, name },
    );
    expect((await rejectionOf(server.update(described, labelled, { ...at, name }))).status).toMatchObject({
      code: 409,
      reason: 'Conflict',
    });
    const dry = await server.patch(described, name, { metadata: { labels: { l: 'dry' } } }, { ...at, query: { dryRun: 'All' } });
    expect(dry.metadata?.labels).toMatchObject({ l: 'dry' });
    expect((await server.get(described, name, at)).metadata?.resourceVersion).toBe(annotated.metadata?.resourceVersion);

    expect(await watching.take(3)).toEqual([`ADDED ${name}`, `MODIFIED ${name}`, `MODIFIED ${name}`]);
    const background = { ...at, body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background' } };
    await server.remove(described, name, background);
    expect((await server.get(described, name, at)).metadata?.deletionTimestamp).toBeDefined();
    await server.patch(described, name, { metadata: { finalizers: null } }, at);
    if (sample.stays !== true) {
      expect(await watching.take(2)).toEqual([`MODIFIED ${name}`, `DELETED ${name}`]);
      expect((await rejectionOf(server.get(described, name, at))).status).toMatchObject({ code: 404 });
      if (kind.verbs.includes('deletecollection')) {
        await server.create(described, sample.body, at);
        await server.handle('deletecollection', described, background);
        expect((await server.list(described, {}, at)).names).toEqual([]);
      }
    }
    await watching.close();
    await server.stop();
  });

  it('increments the generation, and separates status and spec', async () => {
    const server = await started();
    const { body: sample, change, status } = body();
    const createdObject = await server.create(described, sample, at);
    const name = createdObject.metadata?.name ?? '';
    if (change !== undefined && apiVersionOf(kind) !== 'resource.k8s.io/v1beta1') {
      const changed = await server.patch(described, name, change, at);
      expect(changed.metadata?.generation).toBe(2);
    }
    if (status !== undefined && sub('status')) {
      const before = await server.get(described, name, at);
      const ignored = await server.patch(described, name, { status }, at);
      expect(part(ignored, 'status')).toEqual(part(before, 'status'));
      const reported = await server.patch(described, name, { status, ...change }, { ...at, subresource: 'status' });
      expect(part(reported, 'status')).toMatchObject(JSON.parse(JSON.stringify(status)) as object);
      expect(reported.metadata?.generation).toBe(before.metadata?.generation);
      for (const key of Object.keys(change ?? {})) expect(part(reported, key)).toEqual(part(before, key));
      expect(await server.get(described, name, { ...at, subresource: 'status' })).toEqual(reported);
    }
    await server.stop();
  });

  it('rejects changes of immutable fields', async () => {
    const server = await started();
    const { body: sample, immutable = [] } = body();
    const createdObject = await server.create(described, sample, at);
    const name = createdObject.metadata?.name ?? '';
    if (apiVersionOf(kind) !== 'resource.k8s.io/v1beta1')
      for (const [patch, field, message] of immutable) {
        const { status } = await rejectionOf(server.patch(described, name, patch, at));
        expect(status).toMatchObject({ code: 422, reason: 'Invalid' });
        const cause = status.details?.causes?.find((candidate) => candidate.field === field);
        expect(status.details?.causes?.map((candidate) => candidate.field)).toContain(field);
        expect(cause?.message).toContain(message);
      }
    expect(await server.get(described, name, at)).toEqual(createdObject);
    await server.stop();
  });
});

describe('served resources', () => {
  it('are every kind, verb and subresource that is served by default', () => {
    const served = new TestServer().pipeline.servedKinds();
    for (const kind of kinds.filter(({ servedByDefault }) => servedByDefault)) {
      const found = served.find((candidate) => groupResource(candidate) === groupResource(kind) && candidate.version === kind.version);
      expect(found, titleOf(kind)).toBeDefined();
      expect(found?.verbs).toEqual(kind.verbs);
      expect(found?.subresources.map(({ name }) => name)).toEqual(kind.subresources.map(({ name }) => name));
    }
    expect(served.every(({ servedByDefault }) => servedByDefault)).toBe(true);
  });
  it('are all kinds with api/all', () => {
    const served = new TestServer({ runtimeConfig: everything }).pipeline.servedKinds();
    expect(served.length).toBe(kinds.length);
    for (const [i, kind] of kinds.entries())
      expect(served[i]?.subresources.map(({ name }) => name)).toEqual(kind.subresources.map(({ name }) => name));
    for (const { group, version, kind } of kinds) expect(isObject(schemaOf({ group, version, kind }))).toBe(true);
  });
  it.each([
    [{ 'resource.k8s.io/v1beta1': true }, 'resource.k8s.io/v1beta1/deviceclasses', true],
    [{ 'resource.k8s.io/v1beta1/deviceclasses': true }, 'resource.k8s.io/v1beta1/resourceclaims', false],
    [{ 'api/beta': true }, 'storage.k8s.io/v1beta1/volumeattributesclasses', true],
    [{ 'api/beta': true }, 'certificates.k8s.io/v1alpha1/clustertrustbundles', false],
    [{ 'api/all': true, 'api/alpha': false }, 'certificates.k8s.io/v1alpha1/clustertrustbundles', false],
    [{ 'batch/v1': false, 'batch/v1/jobs': true }, 'batch/v1/cronjobs', false],
    [{ 'batch/v1': false, 'batch/v1/jobs': true }, 'batch/v1/jobs', true],
  ] as const)('%j sets %s to %s', (config, name, on) => {
    const enabled = enabledKinds(config as unknown as Readonly<Record<string, boolean>>);
    expect(kinds.filter(enabled).some(({ group, version, resource: plural }) => `${group}/${version}/${plural}` === name)).toBe(on);
  });
  it('reject unknown names', () => {
    expect(() => enabledKinds({ 'nothing/v1': true })).toThrow('unknown api groups nothing/v1');
  });
});
