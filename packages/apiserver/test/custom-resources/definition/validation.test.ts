import { afterEach, describe, expect, it } from 'vitest';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf } from '../../support/pipeline-fixture.ts';
import {
  custom,
  definition,
  definitions,
  establish,
  resourceOf,
  startServer,
  stopServers,
  type Sketch,
} from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const root = 'spec.validation.openAPIV3Schema';

async function errorsOf(sketch: Sketch): Promise<readonly string[]> {
  const server = await startServer();
  const { status } = await rejectionOf(server.create(definitions, definition(sketch)));
  return (status.details?.causes ?? []).map(({ field, message }) => `${field}: ${message}`);
}
const ofSchema = (properties: Record<string, JSONSchemaProps>, more: JSONSchemaProps = {}) =>
  errorsOf({ schema: { type: 'object', properties, ...more } });

describe('CustomResourceDefinition', () => {
  it('requires a name of plural and group', async () => {
    const server = await startServer();
    const rejection = await rejectionOf(server.create(definitions, { ...definition(), metadata: { name: 'x.example.com' } }));
    expect(rejection.message).toContain('metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group');
  });

  it('requires a group with a dot, one storage version and unique versions', async () => {
    expect(await errorsOf({ group: 'example' })).toEqual([
      'spec.group: Invalid value: "example": should be a domain with at least one dot',
    ]);
    expect(await errorsOf({ versions: [{ name: 'v1' }, { name: 'v1' }] })).toEqual([
      expect.stringMatching(/^spec\.versions: Invalid value: .*: must contain unique version names$/),
    ]);
    expect(await errorsOf({ versions: [{ name: 'v1', storage: false }] })).toEqual([
      expect.stringMatching(/^spec\.versions: Invalid value: .*: must have exactly one version marked as storage version$/),
    ]);
  });

  it('requires structural schemas', async () => {
    expect(await errorsOf({ version: { schema: {} } })).toEqual([
      'spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required',
    ]);
    expect(await errorsOf({ schema: {} })).toEqual([`${root}.type: Required value: must not be empty at the root`]);
    expect(await ofSchema({ a: {} })).toEqual([
      `${root}.properties[a].type: Required value: must not be empty for specified object fields`,
    ]);
    expect(await ofSchema({ a: { type: 'array', items: {} } })).toEqual([
      `${root}.properties[a].items.type: Required value: must not be empty for specified array items`,
    ]);
    expect(await ofSchema({ a: { type: 'object', anyOf: [{ type: 'object' }] } })).toEqual([
      `${root}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural`,
    ]);
    expect(await ofSchema({ a: { type: 'array' } })).toEqual([`${root}.properties[a].items: Required value: must be specified`]);
    expect(await ofSchema({}, { anyOf: [{ properties: { a: { minimum: 1 } } }] })).toEqual([
      `${root}.properties[a]: Required value: because it is defined in ${root}.anyOf[0].properties[a]`,
    ]);
    const labels: JSONSchemaProps = { type: 'object', additionalProperties: { type: 'string' } };
    expect(await ofSchema({ labels }, { allOf: [{ properties: { labels: { properties: { app: { minLength: 1 } } } } }] })).toEqual([
      `${root}.properties[labels].properties[app]: Required value: because it is defined in ${root}.allOf[0].properties[labels].properties[app]`,
    ]);
    expect(await ofSchema({ a: { type: 'object', not: { properties: { metadata: { type: 'object' } } } } })).toEqual([
      `${root}.properties[a].not.properties[metadata].type: Forbidden: must be empty to be structural`,
      `${root}.properties[a].not.properties[metadata]: Forbidden: must not be specified in a nested context`,
    ]);
    expect(await ofSchema({ metadata: { type: 'object', properties: { labels: { type: 'object' } } } })).toEqual([
      `${root}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified`,
    ]);
    expect(await ofSchema({ metadata: { type: 'object', default: {}, properties: { name: { type: 'string', default: 'x' } } } })).toEqual([
      `${root}.properties[metadata].default: Forbidden: must not be set in top-level metadata`,
      `${root}.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata`,
    ]);
    const inMeta: JSONSchemaProps = {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      'x-kubernetes-preserve-unknown-fields': true,
    };
    const embedded = (properties: Record<string, JSONSchemaProps>): JSONSchemaProps => ({ ...inMeta, properties });
    expect(await ofSchema({ a: embedded({ metadata: { type: 'object', properties: { a: inMeta } } }) })).toEqual([
      `${root}.properties[a].properties[metadata].properties[a].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta`,
    ]);
  });

  it.each<[title: string, properties: Record<string, JSONSchemaProps>]>([
    [
      'properties beside additionalProperties: true',
      { a: { type: 'object', additionalProperties: true, properties: { b: { type: 'string' } } } },
    ],
    ['additionalProperties: false without properties', { a: { type: 'object', additionalProperties: false } }],
    ['a type beside x-kubernetes-int-or-string', { a: { type: 'string', 'x-kubernetes-int-or-string': true } }],
    [
      'types of integer or string without x-kubernetes-int-or-string',
      { a: { type: 'string', anyOf: [{ type: 'integer' }, { type: 'string' }] } },
    ],
    [
      'restrictions on undeclared fields in junctors of properties',
      { a: { type: 'object', anyOf: [{ properties: { b: { minimum: 1 } } }] } },
    ],
    [
      'any metadata of embedded resources',
      {
        a: {
          type: 'object',
          'x-kubernetes-embedded-resource': true,
          properties: {
            metadata: { type: 'object', properties: { labels: { type: 'object', additionalProperties: { type: 'string' } } } },
          },
        },
      },
    ],
  ])('allows %s, as upstream', async (_title, properties) => {
    const server = await startServer();
    await server.create(definitions, definition({ schema: { type: 'object', properties } }));
  });

  it('keeps the fields that additionalProperties allows beside properties, and rejects those that it forbids', async () => {
    const server = await startServer();
    const open: JSONSchemaProps = { type: 'object', additionalProperties: true, properties: { known: { type: 'string' } } };
    const closed: JSONSchemaProps = { type: 'object', additionalProperties: false };
    const sketch = definition({ schema: { type: 'object', properties: { open, closed } } });
    await establish(server, sketch);
    const created = await server.create(
      resourceOf(sketch),
      custom(resourceOf(sketch), 'w', { open: { known: 'a', other: 1, nested: { lost: 1 } }, closed: {} }),
    );
    expect(created).toMatchObject({ open: { known: 'a', other: 1, nested: {} } });
    const rejection = await rejectionOf(server.create(resourceOf(sketch), custom(resourceOf(sketch), 'x', { closed: { other: 1 } })));
    expect(rejection.message).toContain('closed.other in body is a forbidden property');
  });

  it('rejects keywords that CustomResourceDefinitions do not support', async () => {
    expect(await ofSchema({ a: { type: 'array', uniqueItems: true, items: { type: 'string' } } })).toEqual([
      `${root}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic`,
    ]);
    const list: JSONSchemaProps = { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k', 'k'] };
    const items: JSONSchemaProps = { type: 'object', required: ['k'], properties: { k: { type: 'object' } } };
    expect(await ofSchema({ a: { ...list, items } })).toEqual([
      `${root}.properties[a].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`,
      `${root}.properties[a].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`,
      `${root}.properties[a].x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate entries`,
    ]);
    expect(await ofSchema({ a: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object' } } })).toEqual([
      `${root}.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`,
    ]);
    expect(
      await ofSchema({ a: { type: 'object', additionalProperties: { type: 'string' }, properties: { b: { type: 'string' } } } }),
    ).toEqual([`${root}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`]);
    expect(await ofSchema({ a: { type: 'string', pattern: '(' } })).toEqual([
      expect.stringContaining(`${root}.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn't: `),
    ]);
    expect(await ofSchema({ a: { type: 'array', 'x-kubernetes-list-type': 'map', items: { type: 'object' } } })).toEqual([
      `${root}.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`,
    ]);
  });

  it('requires defaults that satisfy their schema', async () => {
    expect(await ofSchema({ a: { type: 'integer', default: 'x' } })).toEqual([
      `${root}.properties[a].default: Invalid value: "string": ${root}.properties[a].default in body must be of type integer: "string"`,
    ]);
    expect(await ofSchema({ a: { type: 'object', default: { b: 1 } } })).toEqual([
      `${root}.properties[a].default: Invalid value: {"b":1}: must not have unknown fields`,
    ]);
  });

  it('requires approval for groups of Kubernetes', async () => {
    expect(await errorsOf({ group: 'x.k8s.io' })).toEqual([
      'metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
    ]);
    const server = await startServer();
    await establish(server, definition({ group: 'x.k8s.io', annotations: { 'api-approved.kubernetes.io': 'unapproved, experimental' } }));
    const created = await server.get(definitions, 'widgets.x.k8s.io');
    expect(created).toMatchObject({
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: 'KubernetesAPIApprovalPolicyConformant', status: 'False', reason: 'UnapprovedAnnotation' }),
        ]) as unknown,
      },
    });
  });

  it('rejects changes of scope and kind after the definition is established', async () => {
    const server = await startServer();
    await establish(server, definition());
    const stored = await server.get(definitions, 'widgets.example.com');
    const changed = { ...stored, spec: { ...definition().spec, scope: 'Cluster', names: { ...definition().spec.names, kind: 'Other' } } };
    const { status } = await rejectionOf(server.update(definitions, changed));
    expect(status.details?.causes?.map(({ field, message }) => `${field}: ${message}`)).toEqual([
      'spec.scope: Invalid value: "Cluster": field is immutable',
      'spec.names.kind: Invalid value: "Other": field is immutable',
    ]);
  });

  it('validates the conversion webhook', async () => {
    expect(await errorsOf({ conversion: { strategy: 'Webhook' } })).toEqual([
      'spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook',
      'spec.conversion.conversionReviewVersions: Required value',
    ]);
    expect(
      await errorsOf({
        conversion: { strategy: 'Webhook', webhook: { conversionReviewVersions: ['v1'], clientConfig: { url: 'http://a/b' } } },
      }),
    ).toEqual([
      'spec.conversion.webhookClientConfig.url: Invalid value: "http": \'https\' is the only allowed URL scheme; desired format: https://host[/path]',
    ]);
  });

  it('validates paths of columns, scale and selectable fields', async () => {
    const at = 'spec';
    expect(await errorsOf({ version: { additionalPrinterColumns: [{ name: 'A', type: 'text', jsonPath: 'spec' }] } })).toEqual([
      `${at}.additionalPrinterColumns[0].type: Unsupported value: "text": supported values: "boolean", "date", "integer", "number", "string"`,
      `${at}.additionalPrinterColumns[0].jsonPath: Invalid value: "spec": must be a simple json path starting with .`,
    ]);
    expect(
      await errorsOf({ version: { subresources: { scale: { specReplicasPath: '.status.x', statusReplicasPath: '.status.y' } } } }),
    ).toEqual([`${at}.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec`]);
    expect(await errorsOf({ version: { selectableFields: [{ jsonPath: '.metadata.name' }, { jsonPath: '.spec.a' }] } })).toHaveLength(2);
  });

  it('names fields that all versions have in common without a version', async () => {
    const columns = [{ name: 'A', type: 'text', jsonPath: '.spec' }];
    const error = 'type: Unsupported value: "text": supported values: "boolean", "date", "integer", "number", "string"';
    const both = { additionalPrinterColumns: columns };
    expect(await errorsOf({ versions: [both, both] })).toEqual([`spec.additionalPrinterColumns[0].${error}`]);
    expect(await errorsOf({ versions: [{}, both] })).toEqual([`spec.versions[1].additionalPrinterColumns[0].${error}`]);
  });
});
