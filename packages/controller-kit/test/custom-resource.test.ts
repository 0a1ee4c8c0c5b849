import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { customResource, type CustomObject } from '../src/custom-resource.ts';
import { Website } from './support/website.ts';

describe('customResource', () => {
  it('returns a manifest with names, columns, rules and subresources', () => {
    const { spec, metadata } = Website.definition;
    expect(metadata).toEqual({ name: 'websites.example.com' });
    expect(spec.names).toEqual({ plural: 'websites', singular: 'website', kind: 'Website', listKind: 'WebsiteList', shortNames: ['web'] });
    expect(spec).toMatchObject({ group: 'example.com', scope: 'Namespaced' });
    const [version, ...others] = spec.versions;
    expect(others).toEqual([]);
    expect(version).toMatchObject({
      name: 'v1',
      served: true,
      storage: true,
      subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
      additionalPrinterColumns: [{ name: 'Title', type: 'string', jsonPath: '.spec.title' }],
      selectableFields: [{ jsonPath: '.spec.title' }],
    });
    expect(version?.schema?.openAPIV3Schema).toMatchObject({
      required: ['spec'],
      'x-kubernetes-validations': [{ rule: "self.metadata.name != 'forbidden'", message: 'the name is reserved' }],
      properties: {
        metadata: { type: 'object' },
        spec: {
          required: ['title'],
          properties: {
            replicas: { type: 'integer', format: 'int32', minimum: 0, maximum: 10, default: 1 },
            pages: { default: {}, additionalProperties: { type: 'string' }, 'x-kubernetes-validations': [{ rule: 'size(self) <= 10' }] },
          },
        },
      },
    });
  });

  it('has typed handles and objects with defaults', () => {
    expect(Website.resource).toEqual({ group: 'example.com', version: 'v1', resource: 'websites', kind: 'Website', namespaced: true });
    expect(Website.object({ namespace: 'a', name: 'b' }, { title: 'T' })).toEqual({
      apiVersion: 'example.com/v1',
      kind: 'Website',
      metadata: { namespace: 'a', name: 'b' },
      spec: { title: 'T', pages: {}, replicas: 1 },
    });
    expect(() => Website.object({ name: 'b' }, { title: '' })).toThrow('title');
    expect(() => Website.resourceOf('v2')).toThrow('websites.example.com has no version v2');
  });

  it.each([
    ['Policy', 'policies'],
    ['Proxy', 'proxies'],
    ['Gateway', 'gateways'],
    ['Class', 'classes'],
    ['Box', 'boxes'],
    ['Branch', 'branches'],
  ])('names the plural of %s %s', (kind, plural) => {
    const created = customResource({ group: 'example.com', kind, scope: 'Cluster', version: { name: 'v1', spec: z.object({}) } });
    expect(created.resource).toMatchObject({ resource: plural, namespaced: false });
  });

  it('names the field of a schema that cannot be expressed', () => {
    const spec = z.object({ ports: z.array(z.object({ at: z.date() })) });
    expect(() => customResource({ group: 'example.com', kind: 'Website', version: { name: 'v1', spec } })).toThrow(
      'spec.ports[].at: JSON has no date',
    );
  });
});

describe('versions', () => {
  const Job = customResource({ group: 'example.com', kind: 'Task', version: { name: 'v2', spec: z.object({ seconds: z.int() }) } })
    .alsoServes(
      { name: 'v1', spec: z.object({ minutes: z.int() }), deprecated: 'example.com/v1 Task is deprecated' },
      {
        toStored: ({ metadata, spec }) => ({ metadata, spec: { seconds: spec.minutes * 60 } }),
        fromStored: ({ metadata, spec }) => ({ metadata, spec: { minutes: Math.round(spec.seconds / 60) } }),
      },
    )
    .alsoServes({ name: 'v2beta1', spec: z.object({ seconds: z.int() }), served: false });
  const object = (version: string, spec: object): CustomObject => ({
    apiVersion: `example.com/${version}`,
    kind: 'Task',
    metadata: { name: 'a' },
    spec,
  });

  it('are part of the definition', () => {
    expect(Job.hasConversion).toBe(true);
    const { spec } = Job.definitionWith({ strategy: 'Webhook' });
    expect(spec.conversion).toEqual({ strategy: 'Webhook' });
    expect(spec.versions.map(({ name, served, storage, deprecationWarning }) => [name, served, storage, deprecationWarning])).toEqual([
      ['v2', true, true, undefined],
      ['v1', true, false, 'example.com/v1 Task is deprecated'],
      ['v2beta1', false, false, undefined],
    ]);
  });

  it('are converted through the stored version', () => {
    expect(Job.convert(object('v1', { minutes: 2 }), 'example.com/v2')).toEqual(object('v2', { seconds: 120 }));
    expect(Job.convert(object('v2beta1', { seconds: 60 }), 'example.com/v1')).toEqual(object('v1', { minutes: 1 }));
    expect(Job.convert(object('v2', { seconds: 60 }), 'example.com/v2beta1')).toEqual(object('v2beta1', { seconds: 60 }));
    expect(() => Job.convert(object('v2', {}), 'example.com/v9')).toThrow('tasks.example.com has no version "example.com/v9"');
    expect(() => Job.convert(object('v2', {}), 'other.com/v1')).toThrow('has no version "other.com/v1"');
  });

  it('have distinct names', () => {
    expect(() => Job.alsoServes({ name: 'v1', spec: z.object({}) })).toThrow('tasks.example.com already has the version v1');
  });
});
