import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf, type TestServer } from '../support/pipeline-fixture.ts';
import { custom, definition, establish, startServer, stopServers } from '../support/custom-resource-definitions.ts';

afterEach(stopServers);

type Widget = KubeObject & { readonly spec?: Readonly<Record<string, unknown>>; readonly status?: unknown };

const schema: JSONSchemaProps = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        replicas: { type: 'integer', default: 1 },
        size: { 'x-kubernetes-int-or-string': true },
        tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
        ports: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['port', 'protocol'],
          items: {
            type: 'object',
            required: ['port', 'protocol'],
            properties: { port: { type: 'integer' }, protocol: { type: 'string', default: 'TCP' }, name: { type: 'string' } },
          },
        },
        selector: { type: 'object', 'x-kubernetes-map-type': 'atomic', additionalProperties: { type: 'string' } },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        plain: { type: 'array', items: { type: 'string' } },
      },
    },
    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
};

async function started(more: Parameters<typeof definition>[0] = {}): Promise<{ server: TestServer; widgets: Resource }> {
  const server = await startServer();
  const widgets = await establish(
    server,
    definition({
      schema,
      version: { subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } } },
      ...more,
    }),
  );
  return { server, widgets };
}

const applied = (server: TestServer, of: Resource, body: unknown, fieldManager: string, query: object = {}, subresource = '') =>
  server.object<Widget>('patch', of, {
    namespace: 'default',
    name: 'a',
    body,
    subresource,
    patchType: 'apply',
    query: { fieldManager, ...query },
  });
const fieldsOf = (object: KubeObject, manager: string) =>
  object.metadata?.managedFields?.find((entry) => entry.manager === manager)?.fieldsV1;

describe('[sig-api-machinery] applied custom resources', () => {
  it('FieldValidation should create/apply a valid CR for CRD with validation schema: lists and maps are merged by the schema', async () => {
    const { server, widgets } = await started();
    const widget = (spec: object) => custom(widgets, 'a', { spec });
    await applied(
      server,
      widgets,
      widget({ tags: ['a', 'b'], ports: [{ port: 80, name: 'web' }], selector: { x: 'y' }, free: { deep: { er: 1 } }, size: '5%' }),
      'one',
    );
    const both = await applied(
      server,
      widgets,
      widget({ tags: ['c'], ports: [{ port: 80, protocol: 'UDP' }], free: { other: [1] } }),
      'two',
    );
    expect(both.spec).toEqual({
      replicas: 1,
      tags: ['a', 'b', 'c'],
      ports: [
        { port: 80, protocol: 'TCP', name: 'web' },
        { port: 80, protocol: 'UDP' },
      ],
      selector: { x: 'y' },
      free: { deep: { er: 1 }, other: [1] },
      size: '5%',
    });
    expect(fieldsOf(both, 'one')).toEqual({
      'f:spec': {
        'f:free': { 'f:deep': { '.': {}, 'f:er': {} } },
        'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:name': {}, 'f:port': {} } },
        'f:selector': {},
        'f:size': {},
        'f:tags': { 'v:"a"': {}, 'v:"b"': {} },
      },
    });
    expect((await rejectionOf(applied(server, widgets, widget({ selector: { z: 'y' } }), 'two'))).message).toBe(
      'Apply failed with 1 conflict: conflict with "one": .spec.selector',
    );
    const less = await applied(server, widgets, widget({ tags: ['a'], free: {} }), 'one');
    expect(less.spec).toMatchObject({ tags: ['a', 'c'], ports: [{ port: 80, protocol: 'UDP' }], free: { other: [1] } });
    expect(less.spec).not.toHaveProperty('selector');
    expect(less.spec).not.toHaveProperty('size');
  });

  it('FieldValidation should create/apply an invalid CR with extra properties for CRD with validation schema: it is rejected', async () => {
    const { server, widgets } = await started();
    expect((await rejectionOf(applied(server, widgets, custom(widgets, 'a', { spec: { odd: 1 } }), 'one'))).message).toBe(
      'failed to create typed patch object (/a; example.com/v1, Kind=Widget): .spec.odd: field not declared in schema',
    );
  });

  it('FieldValidation should create/apply a CR with unknown fields for CRD with no validation schema', async () => {
    const { server, widgets } = await started({ schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } });
    const created = await applied(server, widgets, custom(widgets, 'a', { spec: { odd: { x: [1, 2] } }, other: 1 }), 'one');
    expect(fieldsOf(created, 'one')).toEqual({ 'f:other': {}, 'f:spec': { '.': {}, 'f:odd': { '.': {}, 'f:x': {} } } });
    const next = await applied(server, widgets, custom(widgets, 'a', { other: 2 }), 'one');
    expect(next).toMatchObject({ other: 2 });
    expect(next.spec).toBeUndefined();
  });

  it('have separate managers of status and scale', async () => {
    const { server, widgets } = await started();
    await applied(server, widgets, custom(widgets, 'a', { spec: { replicas: 2 }, status: { x: 1 } }), 'one');
    const next = await applied(server, widgets, custom(widgets, 'a', { spec: { replicas: 9 }, status: { x: 1 } }), 'two', {}, 'status');
    expect(next).toMatchObject({ spec: { replicas: 2 }, status: { x: 1 } });
    expect(fieldsOf(next, 'two')).toEqual({ 'f:status': { 'f:x': {} } });
    expect(fieldsOf(next, 'one')).toEqual({ 'f:spec': { 'f:replicas': {} } });
    const scale = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'a' }, spec: { replicas: 5 } };
    expect((await rejectionOf(applied(server, widgets, scale, 'three', {}, 'scale'))).message).toBe(
      'Apply failed with 1 conflict: conflict with "one": .spec.replicas',
    );
    await applied(server, widgets, scale, 'three', { force: 'true' }, 'scale');
    const after = await server.get<Widget>(widgets, 'a');
    expect(after.spec).toEqual({ replicas: 5 });
    expect(after.metadata?.managedFields?.find(({ manager }) => manager === 'three')).toMatchObject({
      operation: 'Apply',
      subresource: 'scale',
      apiVersion: 'example.com/v1',
      fieldsV1: { 'f:spec': { 'f:replicas': {} } },
    });
  });
});
