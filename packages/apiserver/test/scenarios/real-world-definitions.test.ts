import { afterEach, describe, expect, it } from 'vitest';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf } from '../support/pipeline-fixture.ts';
import { custom, definition, definitions, establish, startServer, stopServers } from '../support/custom-resource-definitions.ts';

afterEach(stopServers);

const text: JSONSchemaProps = { type: 'string' };
const object = (properties: Record<string, JSONSchemaProps>, more: JSONSchemaProps = {}): JSONSchemaProps => ({
  type: 'object',
  properties,
  ...more,
});
const list = (items: JSONSchemaProps, more: JSONSchemaProps = {}): JSONSchemaProps => ({ type: 'array', items, ...more });
const conditions = list(
  object(
    {
      type: { type: 'string', maxLength: 316 },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      reason: { type: 'string', maxLength: 1024, minLength: 1, pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$' },
      message: { type: 'string', maxLength: 32768 },
      lastTransitionTime: { type: 'string', format: 'date-time' },
      observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
    },
    { required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'] },
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] },
);
const quantity: JSONSchemaProps = {
  anyOf: [{ type: 'integer' }, { type: 'string' }],
  'x-kubernetes-int-or-string': true,
  pattern: '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
};

/** A database operator's cluster: quantities, pod templates, map lists, rules, a scale. */
const databases = definition({
  group: 'db.example.io',
  kind: 'Database',
  names: { shortNames: ['db'], categories: ['all', 'data'] },
  version: {
    schema: {
      openAPIV3Schema: object({
        spec: object(
          {
            replicas: { type: 'integer', format: 'int32', minimum: 0, maximum: 99, default: 1 },
            version: { type: 'string', pattern: '^[0-9]+\\.[0-9]+$' },
            storage: object({ size: quantity, class: { type: 'string', nullable: true } }, { required: ['size'] }),
            resources: object({
              limits: { type: 'object', additionalProperties: quantity },
              requests: { type: 'object', additionalProperties: quantity },
            }),
            ports: list(
              object(
                {
                  name: text,
                  port: { type: 'integer', minimum: 1, maximum: 65535 },
                  targetPort: { 'x-kubernetes-int-or-string': true },
                  protocol: { type: 'string', default: 'TCP' },
                },
                { required: ['port'] },
              ),
              { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['port', 'protocol'] },
            ),
            podTemplate: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
            parameters: { type: 'object', additionalProperties: text },
            backup: object(
              { schedule: text, s3: object({ bucket: text }), gcs: object({ bucket: text }) },
              { oneOf: [{ required: ['s3'] }, { required: ['gcs'] }] },
            ),
            affinity: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, 'x-kubernetes-map-type': 'atomic' },
          },
          {
            required: ['version', 'storage'],
            'x-kubernetes-validations': [
              { rule: '!has(oldSelf.storage.class) || has(self.storage.class)', message: 'the storage class stays' },
            ],
          },
        ),
        status: object({ replicas: { type: 'integer' }, selector: text, conditions }),
      }),
    },
    subresources: {
      status: {},
      scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
    },
    additionalPrinterColumns: [
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: 'Size', type: 'string', jsonPath: '.spec.storage.size', priority: 1 },
    ],
  },
});

/** A monitoring system's rules: nested groups with labels, annotations and durations. */
const alerts = definition({
  group: 'monitoring.example.io',
  kind: 'AlertRule',
  names: { plural: 'alertrules', listKind: 'AlertRuleList' },
  schema: object({
    spec: object({
      groups: list(
        object(
          {
            name: { type: 'string', minLength: 1 },
            interval: {
              type: 'string',
              pattern: '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$',
            },
            rules: list(
              object(
                {
                  alert: text,
                  expr: { anyOf: [{ type: 'integer' }, { type: 'string' }], 'x-kubernetes-int-or-string': true },
                  for: text,
                  labels: { type: 'object', additionalProperties: text },
                  annotations: { type: 'object', additionalProperties: text },
                },
                { required: ['expr'] },
              ),
            ),
          },
          { required: ['name'] },
        ),
        { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
      ),
    }),
  }),
});

/** A schema that preserves unknown fields except in one validated field. */
const bags = definition({
  group: 'misc.example.io',
  kind: 'Bag',
  scope: 'Cluster',
  schema: {
    type: 'object',
    'x-kubernetes-preserve-unknown-fields': true,
    properties: { spec: object({ strict: object({ a: { type: 'integer' } }) }, { 'x-kubernetes-preserve-unknown-fields': true }) },
  },
});

describe('definitions of operators', () => {
  it('work for a database operator', async () => {
    const server = await startServer();
    const of = await establish(server, databases);
    const spec = {
      version: '16.1',
      storage: { size: '10Gi', class: null },
      resources: { limits: { cpu: 2, memory: '1Gi' } },
      ports: [
        { port: 5432, targetPort: 'sql' },
        { port: 5432, protocol: 'UDP', targetPort: 5432 },
      ],
      podTemplate: { apiVersion: 'v1', kind: 'Pod', metadata: { labels: { a: 'b' } }, spec: { containers: [] } },
      parameters: { a: 'b' },
      backup: { schedule: '@daily', s3: { bucket: 'x' } },
      affinity: { nodeAffinity: { any: [{ thing: 1 }] } },
    };
    const created = await server.create(of, custom(of, 'main', { spec }));
    expect(created).toMatchObject({
      spec: { ...spec, replicas: 1, ports: [{ port: 5432, protocol: 'TCP', targetPort: 'sql' }, { protocol: 'UDP' }] },
    });
    const causes = async (change: object) =>
      ((await rejectionOf(server.patch(of, 'main', { spec: change }))).status.details?.causes ?? []).map(
        ({ field, message }) => `${field}: ${message}`,
      );
    expect(await causes({ storage: { size: '10 gigs' } })).toEqual([
      expect.stringMatching(/^spec\.storage\.size: Invalid value: "10 gigs": spec\.storage\.size in body should match /),
    ]);
    expect((await causes({ backup: { gcs: { bucket: 'y' } } }))[0]).toBe(
      '<nil>: Invalid value: "": "spec.backup" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    );
    expect(await causes({ ports: [{ port: 0 }, { port: 1 }, { port: 1 }] })).toEqual([
      'spec.ports[0].port: Invalid value: 0: spec.ports[0].port in body should be greater than or equal to 1',
      'spec.ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}',
    ]);
    expect((await causes({ podTemplate: { kind: null } }))[0]).toBe('spec.podTemplate.kind: Required value');
    const condition = { type: 'Ready', status: 'True', reason: 'Up', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' };
    await server.patch(of, 'main', { status: { conditions: [condition] } }, { subresource: 'status' });
    const twice = await rejectionOf(
      server.patch(of, 'main', { status: { conditions: [condition, condition] } }, { subresource: 'status' }),
    );
    expect(twice.message).toContain('status.conditions[1]: Duplicate value: {"type":"Ready"}');
  });

  it('work for a monitoring system', async () => {
    const server = await startServer();
    const of = await establish(server, alerts);
    const rule = { alert: 'Down', expr: 'up == 0', for: '5m', labels: { severity: 'page' } };
    const spec = { groups: [{ name: 'a', interval: '30s', rules: [rule, { expr: 1 }] }] };
    expect(await server.create(of, custom(of, 'a', { spec }))).toMatchObject({ spec });
    const wrong = await rejectionOf(
      server.create(of, custom(of, 'b', { spec: { groups: [{ name: '', interval: 'x', rules: [{ alert: 1 }] }] } })),
    );
    expect(wrong.status.details?.causes?.map(({ field }) => field)).toEqual([
      'spec.groups[0].name',
      'spec.groups[0].interval',
      'spec.groups[0].rules[0].alert',
      'spec.groups[0].rules[0].expr',
    ]);
  });

  it('work for a schema that preserves unknown fields', async () => {
    const server = await startServer();
    const of = await establish(server, bags);
    const body = { anything: [1, { b: null }], spec: { free: { x: 1 }, strict: { a: 1, b: 2 } } };
    const created = await server.create(of, custom(of, 'a', body));
    expect(created).toMatchObject({ anything: [1, { b: null }], spec: { free: { x: 1 }, strict: { a: 1 } } });
    expect(JSON.stringify((created as unknown as { readonly spec: unknown }).spec)).toBe('{"free":{"x":1},"strict":{"a":1}}');
    const odd = await rejectionOf(server.create(of, { ...custom(of, 'b'), metadata: 'x' } as never));
    expect(odd.code).toBe(400);
  });

  it('end watches when the definition changes', async () => {
    const server = await startServer();
    const of = await establish(server, bags);
    const watch = await server.watch(of, {});
    const stored = await server.get(definitions, 'bags.misc.example.io');
    await server.patch(definitions, 'bags.misc.example.io', { metadata: { labels: { a: 'b' } } });
    await server.create(of, custom(of, 'a'));
    expect(await watch.take(1)).toEqual(['ADDED a']);
    const changed = definition({ group: 'misc.example.io', kind: 'Bag', scope: 'Cluster', names: { shortNames: ['bg'] } });
    await server.update(definitions, {
      ...stored,
      metadata: { ...stored.metadata, resourceVersion: (await server.get(definitions, 'bags.misc.example.io')).metadata?.resourceVersion },
      spec: changed.spec,
    } as never);
    expect(await watch.next()).toBeUndefined();
  });

  it('never replace built-in kinds', async () => {
    const server = await startServer();
    const created = definition({
      group: 'networking.k8s.io',
      kind: 'Ingress',
      names: { plural: 'ingresses' },
      annotations: { 'api-approved.kubernetes.io': 'unapproved, a test' },
    });
    await server.create(definitions, created);
    const ingress = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: { name: 'a' },
      spec: { defaultBackend: { service: { name: 'a', port: { number: 1 } } } },
    };
    await server.list(definitions); // wait until the server has processed the definition
    await server.create('ingresses.networking.k8s.io', ingress);
    expect((await server.list('ingresses.networking.k8s.io')).names).toEqual(['a']);
    await server.remove(definitions, 'ingresses.networking.k8s.io');
    await server.list(definitions);
    expect((await server.list('ingresses.networking.k8s.io')).names).toEqual(['a']);
  });
});
