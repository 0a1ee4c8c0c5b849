import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { conformToSchema, conformLeniently } from '@oarlock/api/schema/conform';
import { deepFreeze } from '@oarlock/api/object';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { decodeObject, encodeObject, parseBody, type FieldValidation } from '@oarlock/api/serializer/serializer';
import { isStatus, StatusError } from '@oarlock/api/status';
import { strictDecodingErrors } from '@oarlock/api/serializer/strict-decoding';

const pod = { group: '', version: 'v1', kind: 'Pod' };
const deployment = { group: 'apps', version: 'v1', kind: 'Deployment' };
const json = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const decode = (body: unknown, expected = deployment, fieldValidation: FieldValidation = 'Ignore') =>
  decodeObject<Record<string, unknown>>(Buffer.from(json(body)), { type: 'application/json', expected, fieldValidation });
const yaml = (text: string, fieldValidation: FieldValidation = 'Ignore') =>
  decodeObject<Record<string, unknown>>(text, { type: 'application/yaml', expected: pod, fieldValidation });
const message = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (isStatus(error, 'BadRequest', 'RequestEntityTooLarge')) return error.message;
    throw error;
  }
  return 'not rejected';
};
const full = { apiVersion: 'apps/v1', kind: 'Deployment' };

describe('decodeObject', () => {
  it('completes kind and apiVersion, drops unknown fields and nulls, and canonicalizes values', () => {
    const { object, warnings } = decode({
      metadata: { name: 'a', creationTimestamp: null, labels: { x: null } },
      spec: { foo: 1, template: { spec: { containers: [{ name: 'c', bar: 2, resources: { limits: { cpu: '1000m', memory: 1024 } } }] } } },
    });
    expect(object).toEqual({
      ...full,
      metadata: { name: 'a', labels: { x: '' } },
      spec: { template: { spec: { containers: [{ name: 'c', resources: { limits: { cpu: '1', memory: '1024' } } }] } } },
    });
    expect(warnings).toEqual([]);
  });
  it.each([
    ['{', "the object provided is unrecognized (must be of type Deployment): couldn't get version/kind; json parse error: "],
    [
      '',
      "the object provided is unrecognized (must be of type Deployment): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
    ],
    ['hello', "json parse error: invalid character 'h' looking for beginning of value (68656c6c6f)"],
    ['[]', 'json: cannot unmarshal array into Go value of type struct'],
    [
      { ...full, spec: { replicas: 'x' } },
      'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32',
    ],
    [
      { ...full, spec: { replicas: 1.5 } },
      'json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32',
    ],
    [{ ...full, spec: { replicas: 2 ** 31 } }, 'cannot unmarshal number 2147483648 into'],
    [{ ...full, spec: { paused: 'yes' } }, 'json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool'],
    [{ ...full, spec: [] }, 'json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec'],
    [
      { ...full, metadata: { labels: { a: 1 } } },
      'json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string',
    ],
    [
      { ...full, metadata: { labels: 'a' } },
      'json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string',
    ],
    [
      { ...full, spec: { template: { spec: { containers: [{ name: 1 }] } } } },
      'json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string',
    ],
    [
      { ...full, spec: { template: { spec: { containers: [{ resources: { limits: { cpu: 'x' } } }] } } } },
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [{ ...full, metadata: { creationTimestamp: 'x' } }, 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'],
    [
      { apiVersion: 'v1', kind: 'Service' },
      'Service in version "v1" cannot be handled as a Deployment: converting (v1.Service) to (apps.Deployment): unknown conversion',
    ],
    [
      { apiVersion: 'apps/v1', kind: 'Nope' },
      'Nope in version "v1" cannot be handled as a Deployment: no kind "Nope" is registered for version "apps/v1" in scheme',
    ],
    [
      { apiVersion: 'apps/v1beta1', kind: 'Deployment' },
      'the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)',
    ],
  ])('rejects %j', (body, expected) => expect(message(() => decode(body))).toContain(expected));

  it('reports unknown and duplicate fields in the order of the text', () => {
    const text =
      '{"apiVersion":"apps/v1","kind":"Deployment","unknown1":{"x":1,"x":2},"metadata":{"name":"a","labels":{"l":"1","l":"2"}},"spec":{"unknownDupe":1,"unknownDupe":2,"paused":true,"paused":false,"template":{"spec":{"containers":[{"name":"a"},{"unknownNested":[{"a":["]}"]}],"image":"x","\\u0069mage":"y"}]}}}}';
    const found = [
      'unknown field "unknown1"',
      'duplicate field "metadata.labels.l"',
      'unknown field "spec.unknownDupe"',
      'duplicate field "spec.paused"',
      'unknown field "spec.template.spec.containers[1].unknownNested"',
      'duplicate field "spec.template.spec.containers[1].image"',
    ];
    expect(decode(text, deployment, 'Warn').warnings).toEqual(found);
    expect(message(() => decode(text, deployment, 'Strict'))).toBe(
      `Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: ${found.join(', ')}`,
    );
    expect(decode(text).object['spec']).not.toHaveProperty('paused');
  });
  it('accepts evictions of the previous version, and no other kind of it', () => {
    const read = (kind: string, apiVersion: string) =>
      decodeObject(Buffer.from(JSON.stringify({ kind, apiVersion, metadata: { name: 'a' } })), {
        type: 'application/json',
        expected: { group: 'policy', version: 'v1', kind },
        fieldValidation: 'Strict',
      }).object;
    expect(read('Eviction', 'policy/v1beta1')).toEqual({ kind: 'Eviction', apiVersion: 'policy/v1beta1', metadata: { name: 'a' } });
    const why = (kind: string) => `the API version in the data (policy/${kind}) does not match the expected API version (policy/v1)`;
    expect(() => read('Eviction', 'policy/v1alpha1')).toThrow(
      'Eviction in version "v1alpha1" cannot be handled as a Eviction: no kind "Eviction" is registered for version "policy/v1alpha1" in scheme',
    );
    expect(() => read('PodDisruptionBudget', 'policy/v1beta1')).toThrow(why('v1beta1'));
  });

  it('rejects excessive nesting', () => {
    const deep = `${'['.repeat(300_000)}${']'.repeat(300_000)}`;
    expect(decode(`{"apiVersion":"apps/v1","kind":"Deployment","x":${deep}}`, deployment, 'Warn').warnings).toEqual(['unknown field "x"']);
    const revision = { group: 'apps', version: 'v1', kind: 'ControllerRevision' };
    expect(message(() => decode(`{"data":${deep}}`, revision))).toBe('json: exceeded max depth');
    expect(message(() => parseBody(deep, 'application/json'))).toBe('json: exceeded max depth');
  });
  it.each(['{"metadata":{"labels":{"__proto__":"x"}}}', '{"metadata":{"labels":{"\\u005f_proto__":"x"}}}', '{"__proto__":{}}'])(
    'rejects %s',
    (text) => {
      expect(message(() => decode(text))).toContain('the key "__proto__" is not supported');
    },
  );
  it('returns an unchanged value itself', () => {
    const value = deepFreeze({ ...full, metadata: { name: 'a' }, spec: { selector: {}, template: {}, replicas: 3 } });
    expect(conformToSchema(schemaOf(deployment) as Schema, value)).toBe(value);
  });
  it('drops unknown fields without checking types', () => {
    expect(conformLeniently(schemaOf(deployment) as Schema, { ...full, x: 1, spec: { replicas: 'x', y: null } })).toEqual({
      ...full,
      spec: { replicas: 'x' },
    });
  });
  it('preserves int-or-string, raw and byte values', () => {
    const service = decode(
      { spec: { ports: [{ targetPort: 'http' }, { targetPort: 80 }] } },
      { group: '', version: 'v1', kind: 'Service' },
    ).object;
    expect(service['spec']).toEqual({ ports: [{ targetPort: 'http' }, { targetPort: 80 }] });
    expect(
      decode({ data: { a: null, b: [1, { c: 'x' }] } }, { group: 'apps', version: 'v1', kind: 'ControllerRevision' }).object['data'],
    ).toEqual({ a: null, b: [1, { c: 'x' }] });
    const secret = { group: '', version: 'v1', kind: 'Secret' };
    expect(decode({ data: { a: 'aGk=', b: '' } }, secret).object['data']).toEqual({ a: 'aGk=', b: '' });
    expect(message(() => decode({ data: { a: 'a$k=' } }, secret))).toContain('illegal base64 data at input byte 1');
  });
  it('reports no strict errors for serialized objects', () => {
    const schema: Schema = schemaOf({ group: '', version: 'v1', kind: 'ConfigMap' }) as Schema;
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string().filter((k) => k !== '__proto__'),
          fc.string(),
        ),
        fc.constantFrom(0, 2),
        (data, indent) => {
          expect(strictDecodingErrors(JSON.stringify({ data, kind: 'ConfigMap' }, undefined, indent), schema)).toEqual([]);
        },
      ),
    );
  });
});

describe('YAML', () => {
  it('is parsed as Go does', () => {
    const { object } = yaml(
      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations: {t: '2020-01-01'}\nspec:\n  hostNetwork: yes\n  containers:\n  - &c {name: a, image: x}\n  - {<<: *c, name: b}\n",
    );
    expect(object).toMatchObject({
      spec: {
        hostNetwork: true,
        containers: [
          { name: 'a', image: 'x' },
          { name: 'b', image: 'x' },
        ],
      },
    });
    expect(yaml('metadata:\n  name: 2020-01-01\n').object).toMatchObject({ metadata: { name: '2020-01-01' } });
    expect(parseBody('a: 1:30\nb: 0777\n1: x\n', 'application/yaml')).toEqual({ a: '1:30', b: 511, 1: 'x' });
  });
  it('reports duplicate keys', () => {
    expect(yaml('metadata:\n  name: a\n  name: b\nx: 1\n', 'Warn').warnings).toEqual([
      'line 3: key "name" already set in map',
      'unknown field "x"',
    ]);
    // the errors of Go's library name the line of the value, after the errors in that value; unknown fields are sorted, as the YAML is converted to JSON
    const nested = 'zz: 1\nspec: {z: 1, b: 1}\nmetadata:\n  labels: {a: b}\n  labels:\n    a: b\n    a: c\nb: 1\n';
    expect(yaml(nested, 'Warn').warnings).toEqual([
      'line 7: key "a" already set in map',
      'line 6: key "labels" already set in map',
      'unknown field "b"',
      'unknown field "spec.b"',
      'unknown field "spec.z"',
      'unknown field "zz"',
    ]);
    expect(yaml('metadata:\n  name: a\n  name: b\n').object).toMatchObject({ metadata: { name: 'b' } });
  });
  it.each([
    ['a: [', 'yaml: line 1: did not find expected node content'],

    ['['.repeat(1000), 'exceeded max depth'],
    ['- '.repeat(1000), 'exceeded max depth'],
    [`a: &a [x]\nb: [${'*a,'.repeat(500)}]`, 'Excessive alias count'],
    ['['.repeat(250_000), 'exceeded max depth'],
    ['a: b\n'.repeat(100_000), 'tokens'],
    ['x'.repeat(4 * 1024 * 1024), 'Request entity too large: limit is'],
    ['a: *b', "unknown anchor 'b' referenced"],
    ['"__proto__": {a: b}', '__proto__'],
  ])('rejects %.20s', (text, expected) => expect(message(() => yaml(text))).toContain(expected));
});

describe('encodeObject', () => {
  it('writes kind, apiVersion and metadata first and omits undefined', () => {
    expect(encodeObject({ spec: { a: undefined, b: 1 }, metadata: { name: 'x' }, apiVersion: 'v1', kind: 'Pod', status: undefined })).toBe(
      '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"b":1}}',
    );
  });
  it('is the inverse of decoding', () => {
    const object = { kind: 'Pod', apiVersion: 'v1', metadata: { name: 'x' } };
    expect(decode(encodeObject(object), pod).object).toEqual(object);
  });
  it('throws nothing but StatusError', () => {
    expect(() => decode({ spec: 1 })).toThrow(StatusError);
  });
});
