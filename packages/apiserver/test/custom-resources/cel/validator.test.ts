import { afterEach, describe, expect, it } from 'vitest';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { rejectionOf } from '../../support/pipeline-fixture.ts';
import { custom, definition, definitions, establish, startServer, stopServers } from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const text: JSONSchemaProps = { type: 'string', maxLength: 20 };
const integer: JSONSchemaProps = { type: 'integer' };
const withRules = (properties: Record<string, JSONSchemaProps>, ...rules: readonly ValidationRule[]): JSONSchemaProps => ({
  type: 'object',
  properties: { spec: { type: 'object', properties, 'x-kubernetes-validations': rules } },
});

async function rejection(schema: JSONSchemaProps): Promise<readonly string[]> {
  const server = await startServer();
  const { status } = await rejectionOf(server.create(definitions, definition({ schema })));
  return (status.details?.causes ?? []).map(({ reason, field, message }) => `${reason} ${field}: ${message}`);
}
const at = 'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]';

describe('validation rules of definitions [sig-api-machinery CustomResourceValidationRules]', () => {
  it('MUST fail create of a custom resource definition that contains a x-kubernetes-validations rule that contains a syntax error', async () => {
    expect(await rejection(withRules({ a: integer }, { rule: 'self = 42' }))).toEqual([
      expect.stringMatching(
        /^FieldValueInvalid .*x-kubernetes-validations\[0\]\.rule: Invalid value: \{"Rule":"self = 42","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null\}: compilation failed: ERROR: /,
      ),
    ]);
  });

  it('MUST fail create of a custom resource definition that contains an x-kubernetes-validations rule that refers to a property that do not exist', async () => {
    expect(await rejection(withRules({ a: integer }, { rule: 'self.z == 1' }))).toEqual([expect.stringContaining("undefined field 'z'")]);
  });

  it('MUST fail create of a custom resource definition that contains an x-kubernetes-validations rule that exceeds the estimated cost limit', async () => {
    const errors = await rejection(
      withRules(
        { x: { type: 'array', items: { type: 'array', items: { type: 'array', items: { type: 'string' } } } } },
        { rule: 'self.x.all(a, a.all(b, b.all(c, c == "x")))' },
      ),
    );
    expect(errors[0]).toContain(
      `FieldValueForbidden ${at}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)`,
    );
  });

  it('MUST fail create of a transition rule without a correlatable old value', async () => {
    const schema: JSONSchemaProps = {
      type: 'object',
      properties: {
        list: {
          type: 'array',
          maxItems: 3,
          items: { type: 'string', maxLength: 3, 'x-kubernetes-validations': [{ rule: 'self == oldSelf' }] },
        },
      },
    };
    expect(await rejection(schema)).toEqual([
      expect.stringContaining(
        'oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[list]',
      ),
    ]);
  });

  it.each<[ValidationRule, string]>([
    [
      { rule: '1' },
      `FieldValueInvalid ${at}.rule: Invalid value: {"Rule":"1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool`,
    ],
    [{ rule: '' }, `FieldValueRequired ${at}.rule: Required value: rule is not specified`],
    [{ rule: 'true', message: '\n' }, `FieldValueInvalid ${at}.message: Invalid value: "\\n": message must be non-empty if specified`],
    [{ rule: 'true &&\ntrue' }, `FieldValueRequired ${at}.message: Required value: message must be specified if rule contains line breaks`],
    [
      { rule: 'true', messageExpression: '1' },
      `FieldValueInvalid ${at}.messageExpression: Invalid value: {"Rule":"true","Message":"","MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string`,
    ],
    [
      { rule: 'true', optionalOldSelf: true },
      `FieldValueInvalid ${at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule`,
    ],
    [
      { rule: 'true', fieldPath: '.nothing' },
      `FieldValueInvalid ${at}.fieldPath: Invalid value: ".nothing": fieldPath must be a valid path: does not refer to a valid field`,
    ],
  ])('MUST be well formed: %j', async (rule, message) => {
    expect(await rejection(withRules({ a: integer }, rule))).toEqual([message]);
  });
});

describe('validation rules of custom resources', () => {
  async function start(schema: JSONSchemaProps) {
    const server = await startServer();
    const widgets = await establish(server, definition({ schema }));
    const causes = async (call: Promise<unknown>) =>
      ((await rejectionOf(call)).status.details?.causes ?? []).map(({ reason, field, message }) => `${reason} ${field}: ${message}`);
    return { server, widgets, causes };
  }

  it('MUST NOT fail validation for create of a custom resource that satisfies the x-kubernetes-validations rules', async () => {
    const { server, widgets } = await start(withRules({ min: integer, max: integer }, { rule: 'self.min <= self.max' }));
    await server.create(widgets, custom(widgets, 'a', { spec: { min: 1, max: 2 } }));
  });

  it('MUST fail validation for create of a custom resource that does not satisfy the x-kubernetes-validations rules', async () => {
    const { server, widgets, causes } = await start(
      withRules(
        { min: integer, max: integer, name: text },
        { rule: 'self.min <= self.max', message: 'min is larger' },
        {
          rule: "!has(self.name) || self.name.startsWith('x')",
          messageExpression: '"not " + self.name',
          fieldPath: '.name',
          reason: 'FieldValueForbidden',
        },
        { rule: '!has(self.name)  ' },
      ),
    );
    expect(await causes(server.create(widgets, custom(widgets, 'a', { spec: { min: 3, max: 2, name: 'y' } })))).toEqual([
      'FieldValueInvalid spec: Invalid value: min is larger',
      'FieldValueForbidden spec.name: Forbidden: not y',
      'FieldValueInvalid spec: Invalid value: failed rule: !has(self.name)',
    ]);
    expect(await causes(server.create(widgets, custom(widgets, 'a', { spec: { min: 'x', max: 2 } })))).toEqual([
      'FieldValueTypeInvalid spec.min: Invalid value: "string": spec.min in body must be of type integer: "string"',
      'FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    ]);
  });

  it('MUST fail update of a custom resource that does not satisfy a x-kubernetes-validations transition rule', async () => {
    const { server, widgets, causes } = await start(
      withRules(
        { fixed: text, once: text },
        { rule: 'self.fixed == oldSelf.fixed', message: 'fixed is immutable', fieldPath: '.fixed' },
        { rule: '!oldSelf.hasValue() || !has(oldSelf.value().once) || has(self.once)', optionalOldSelf: true, message: 'once stays' },
      ),
    );
    await server.create(widgets, custom(widgets, 'a', { spec: { fixed: 'x', once: 'y' } }));
    expect(await causes(server.patch(widgets, 'a', { spec: { fixed: 'z', once: null } }))).toEqual([
      'FieldValueInvalid spec.fixed: Invalid value: fixed is immutable',
      'FieldValueInvalid spec: Invalid value: once stays',
    ]);
  });

  it('evaluates rules of keyed lists, of the whole object, and of the status', async () => {
    const { server, widgets, causes } = await start({
      type: 'object',
      properties: {
        spec: {
          type: 'object',
          properties: {
            items: {
              type: 'array',
              maxItems: 10,
              'x-kubernetes-list-type': 'map',
              'x-kubernetes-list-map-keys': ['name'],
              items: {
                type: 'object',
                required: ['name'],
                properties: {
                  name: text,
                  size: { type: 'integer', 'x-kubernetes-validations': [{ rule: 'self >= oldSelf', message: 'grow only' }] },
                },
              },
            },
            labels: {
              type: 'object',
              maxProperties: 5,
              additionalProperties: { ...text, 'x-kubernetes-validations': [{ rule: 'self != "bad"' }] },
            },
          },
        },
      },
      'x-kubernetes-validations': [{ rule: "self.metadata.name != 'forbidden'", message: 'not that name' }],
    });
    expect(await causes(server.create(widgets, custom(widgets, 'forbidden', {})))).toEqual([
      'FieldValueInvalid <nil>: Invalid value: not that name',
    ]);
    await server.create(
      widgets,
      custom(widgets, 'a', {
        spec: {
          items: [
            { name: 'x', size: 2 },
            { name: 'y', size: 3 },
          ],
        },
      }),
    );
    await server.patch(widgets, 'a', {
      spec: {
        items: [
          { name: 'y', size: 4 },
          { name: 'new', size: 0 },
          { name: 'x', size: 2 },
        ],
      },
    });
    expect(await causes(server.patch(widgets, 'a', { spec: { items: [{ name: 'x', size: 1 }] } }))).toEqual([
      'FieldValueInvalid spec.items[0].size: Invalid value: 1: grow only',
    ]);
    expect(await causes(server.patch(widgets, 'a', { spec: { labels: { k: 'bad' } } }))).toEqual([
      'FieldValueInvalid spec.labels[k]: Invalid value: "bad": failed rule: self != "bad"',
    ]);
  });

  it('tolerates existing violations in unchanged values', async () => {
    const schema = withRules({ a: integer, b: integer });
    const { server, widgets, causes } = await start(schema);
    await server.create(widgets, custom(widgets, 'a', { spec: { a: 5 } }));
    const stored = await server.get(definitions, 'widgets.example.com');
    await server.update(definitions, {
      ...stored,
      spec: definition({ schema: withRules({ a: integer, b: integer }, { rule: 'self.a < 3' }) }).spec,
    } as never);
    await server.list(definitions); // wait until the server serves the new rules
    await server.patch(widgets, 'a', { metadata: { labels: { x: 'y' } } });
    expect(await causes(server.patch(widgets, 'a', { spec: { b: 1 } }))).toEqual([
      'FieldValueInvalid spec: Invalid value: failed rule: self.a < 3',
    ]);
  });
});
