import { afterEach, describe, expect, it } from 'vitest';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf } from '../../support/pipeline-fixture.ts';
import { definition, definitions, establish, startServer, stopServers, type Sketch } from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const root = 'spec.versions[0].schema.openAPIV3Schema';

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
    expect(await errorsOf({ version: { schema: {} } })).toEqual([`${root}: Required value: schemas are required`]);
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
    expect(await ofSchema({ a: { type: 'object', anyOf: [{ properties: { b: { minimum: 1 } } }] } })).toEqual([
      `${root}.properties[a].properties[b]: Required value: because it is defined in ${root}.properties[a].anyOf[0].properties[b]`,
    ]);
    expect(await ofSchema({ metadata: { type: 'object', properties: { labels: { type: 'object' } } } })).toEqual([
      `${root}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified`,
    ]);
  });

  it('rejects keywords that CustomResourceDefinitions do not support', async () => {
    expect(await ofSchema({ a: { type: 'array', uniqueItems: true, items: { type: 'string' } } })).toEqual([
      `${root}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic`,
    ]);
    expect(await ofSchema({ a: { type: 'object', additionalProperties: true, properties: { b: { type: 'string' } } } })).toEqual([
      `${root}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`,
    ]);
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
    const at = 'spec.versions[0]';
    expect(await errorsOf({ version: { additionalPrinterColumns: [{ name: 'A', type: 'text', jsonPath: 'spec' }] } })).toEqual([
      `${at}.additionalPrinterColumns[0].type: Unsupported value: "text": supported values: "boolean", "date", "integer", "number", "string"`,
      `${at}.additionalPrinterColumns[0].jsonPath: Invalid value: "spec": must be a simple json path starting with .`,
    ]);
    expect(
      await errorsOf({ version: { subresources: { scale: { specReplicasPath: '.status.x', statusReplicasPath: '.status.y' } } } }),
    ).toEqual([`${at}.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec`]);
    expect(await errorsOf({ version: { selectableFields: [{ jsonPath: '.metadata.name' }, { jsonPath: '.spec.a' }] } })).toHaveLength(2);
  });
});
