import type { CustomResourceDefinition, JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { describe, expect, it } from 'vitest';
import { validateRules } from '../../../src/custom-resources/cel/validator.ts';
import { validateDefinition, validateDefinitionUpdate } from '../../../src/custom-resources/definition/validation.ts';
import { SchemaNode } from '../../../src/custom-resources/schema/schema-node.ts';
import { definition } from '../../support/custom-resource-definitions.ts';

const names = { singular: 'widget', listKind: 'WidgetList' };
const withSpec = (spec: JSONSchemaProps): CustomResourceDefinition => {
  const sketch = definition({ names, schema: { type: 'object', properties: { spec } } });
  return { ...sketch, status: { storedVersions: ['v1'] } } as CustomResourceDefinition;
};
const at = 'spec.validation.openAPIV3Schema.properties[spec]';
const lines = (errors: ReturnType<typeof validateDefinition>) => errors.map(({ field, message }) => `${field}: ${message}`);
const creation = (spec: JSONSchemaProps) => lines(validateDefinition(withSpec(spec)));
const update = (spec: JSONSchemaProps, old: JSONSchemaProps) => lines(validateDefinitionUpdate(withSpec(spec), withSpec(old)));

const a: JSONSchemaProps = { type: 'integer' };
const added: JSONSchemaProps = { type: 'string' };
const object = (properties: Record<string, JSONSchemaProps>, ...rules: readonly ValidationRule[]): JSONSchemaProps => ({
  type: 'object',
  properties,
  ...(rules.length > 0 && { 'x-kubernetes-validations': rules }),
});

describe('rules with functions that new rules must not use', () => {
  const rule: ValidationRule = { rule: 'math.abs(self.a) < 5', messageExpression: "'cba'.reverse()" };
  const undeclared = "undeclared reference to 'math'";

  it('are rejected in new definitions', () => {
    const errors = creation(object({ a }, rule));
    expect(errors.map((error) => error.split(': ')[0])).toEqual([
      `${at}.x-kubernetes-validations[0].rule`,
      `${at}.x-kubernetes-validations[0].messageExpression`,
    ]);
    expect(errors[0]).toContain(undeclared);
  });

  it('are accepted in updates that do not change them', () => {
    expect(update(object({ a, added }, rule), object({ a }, rule))).toEqual([]);
    // upstream keeps the expressions of all versions and schemas together
    expect(update(object({ a, b: object({ a }, rule) }), object({ a }, rule))).toEqual([]);
    expect(update(object({ a, added }, { ...rule, message: 'too large' }), object({ a }, rule))).toEqual([]);
    const changed = { ...rule, rule: `${rule.rule} || false` };
    expect(update(object({ a, added }, changed), object({ a }, rule))).toEqual([expect.stringContaining(undeclared)]);
    // a stored messageExpression is not a stored rule
    expect(
      update(
        object({ a, added }, { rule: "'aa'.reverse() == 'aa'" }),
        object({ a }, { ...rule, messageExpression: "'aa'.reverse() == 'aa'" }),
      ),
    ).toEqual([expect.stringContaining('no matching overload')]);
  });

  it('are evaluated', () => {
    const schema = new SchemaNode({ type: 'object', properties: { spec: object({ a }, rule) } }, true);
    const errorsOf = (value: number) =>
      validateRules(schema, { object: { spec: { a: value } } as object, old: undefined }).map(({ message }) => message);
    expect(errorsOf(-4)).toEqual([]);
    expect(errorsOf(-5)).toEqual(['Invalid value: abc']);
  });
});

describe('schemas that break rules which Kubernetes added later', () => {
  const set: JSONSchemaProps = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object' } };
  const mapList: JSONSchemaProps = {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['key'],
    items: { type: 'object', properties: { key: { type: 'string' } } },
  };
  const nullableItems: JSONSchemaProps = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string', nullable: true } };
  const unpruned: JSONSchemaProps = { type: 'object', properties: { a }, default: { b: 1 } };

  it.each<[string, JSONSchemaProps, string]>([
    ['a set with items that are not atomic', set, 'must be atomic as item of a list with x-kubernetes-list-type=set'],
    ['a map list with an optional key', mapList, 'so it must have a default or be a required property'],
    ['a set with nullable items', nullableItems, 'cannot be nullable when x-kubernetes-list-type is set'],
    ['a default with an unknown field', unpruned, 'must not have unknown fields'],
    ['a type that OpenAPI does not have', { type: 'text' }, 'Unsupported value: "text"'],
  ])('%s is accepted in an update if the old definition has one', (_, schema, message) => {
    expect(creation(object({ schema }))).toEqual([expect.stringContaining(message)]);
    expect(update(object({ schema, added }), object({ added }))).toEqual([expect.stringContaining(message)]);
    expect(update(object({ schema, added }), object({ schema }))).toEqual([]);
    // upstream waives the rule for the whole definition
    expect(update(object({ schema, other: schema }), object({ schema }))).toEqual([]);
  });

  it('a version without a schema is accepted in an update if the old definition has one', () => {
    const without = { ...withSpec(a), spec: { ...withSpec(a).spec, versions: [{ name: 'v1', served: true, storage: true }] } };
    const message = 'spec.versions[0].schema.openAPIV3Schema: Required value: ';
    expect(lines(validateDefinition(without))).toEqual([`${message}schemas are required`]);
    expect(lines(validateDefinitionUpdate(without, withSpec(a)))).toEqual([`${message}schemas are required`]);
    // a served version needs a schema, otherwise all fields are pruned
    expect(lines(validateDefinitionUpdate(without, without))).toEqual([`${message}because otherwise all fields are pruned`]);
    const preserving = { ...without, spec: { ...without.spec, preserveUnknownFields: true } };
    expect(lines(validateDefinitionUpdate(preserving, preserving))).toEqual([]);
  });

  it('a schema that is not structural is accepted while the definition preserves unknown fields and uses no extensions', () => {
    const preserving = (spec: JSONSchemaProps) => {
      const sketch = withSpec(spec);
      return { ...sketch, spec: { ...sketch.spec, preserveUnknownFields: true } };
    };
    const loose: JSONSchemaProps = { properties: { a: {} } };
    const errors = (spec: JSONSchemaProps, pruning = false) =>
      lines(validateDefinitionUpdate(pruning ? withSpec(spec) : preserving(spec), preserving(loose)));
    expect(errors({ properties: { a: {}, b: {} } })).toEqual([]);
    expect(errors({ properties: { a: {}, b: {} } }, true)).toContainEqual(
      expect.stringContaining('must not be empty for specified object fields'),
    );
    expect(errors({ properties: { a: {}, b: { 'x-kubernetes-int-or-string': true } } })).toContainEqual(
      expect.stringContaining('must not be empty for specified object fields'),
    );
  });

  it('a conversion webhook with unknown review versions is accepted if the old definition has one', () => {
    const converting = (...conversionReviewVersions: string[]): CustomResourceDefinition => {
      const sketch = withSpec(a);
      const webhook = { clientConfig: { url: 'https://example.com' }, conversionReviewVersions };
      return { ...sketch, spec: { ...sketch.spec, conversion: { strategy: 'Webhook', webhook } } };
    };
    const message = 'spec.conversion.conversionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1';
    expect(lines(validateDefinition(converting('v9')))).toEqual([message]);
    expect(lines(validateDefinitionUpdate(converting('v9'), converting('v1')))).toEqual([message]);
    expect(lines(validateDefinitionUpdate(converting('v9'), converting('v8')))).toEqual([]);
  });

  it('a conversion webhook needs valid certificates only when the definition is established and had no invalid ones', () => {
    const converting = (text: string, established: boolean): CustomResourceDefinition => {
      const sketch = withSpec(a);
      const caBundle = Buffer.from(text).toString('base64');
      const clientConfig = { url: 'https://example.com', ...(text !== '' && { caBundle }) };
      const conditions = established ? [{ type: 'Established', status: 'True' }] : [];
      return {
        ...sketch,
        spec: { ...sketch.spec, conversion: { strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions: ['v1'] } } },
        status: { ...sketch.status, conditions } as NonNullable<CustomResourceDefinition['status']>,
      };
    };
    const message = `spec.conversion.webhookClientConfig.caBundle: Invalid value: "Tm90aGluZw==": unable to load root certificates: unable to parse bytes as PEM block`;
    expect(lines(validateDefinition(converting('Nothing', false)))).toEqual([]);
    expect(lines(validateDefinitionUpdate(converting('Nothing', false), converting('', false)))).toEqual([]);
    expect(lines(validateDefinitionUpdate(converting('Nothing', true), converting('', true)))).toEqual([message]);
    expect(lines(validateDefinitionUpdate(converting('Nothing', true), converting('Other', true)))).toEqual([]);
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    expect(lines(validateDefinitionUpdate(converting(broken, true), converting('', true)))).toEqual([
      expect.stringContaining('unable to load root certificates: failed to parse certificate: '),
    ]);
  });
});
