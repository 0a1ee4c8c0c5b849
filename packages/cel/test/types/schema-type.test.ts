import { describe, expect, it } from 'vitest';
import { kubernetesEnvironment } from '../../src/checker/environment.ts';
import { escapeName } from '../../src/types/escaping.ts';
import { estimateCost, maxRuleCost } from '../../src/cost-estimate.ts';
import { toJson } from '../../src/values/json-value.ts';
import { compile } from '../../src/program.ts';
import { typeOfSchema, type StructuralSchema } from '../../src/types/schema-type.ts';
import { bool, formatType } from '../../src/types/type.ts';

const schema: StructuralSchema = {
  type: 'object',
  required: ['replicas'],
  properties: {
    replicas: { type: 'integer' },
    ratio: { type: 'number' },
    when: { type: 'string', format: 'date-time' },
    every: { type: 'string', format: 'duration' },
    blob: { type: 'string', format: 'byte' },
    tags: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
    ports: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: { type: 'object', properties: { name: { type: 'string' }, port: { type: 'integer' } } },
    },
    plain: { type: 'array', items: { type: 'string' } },
    limits: { type: 'object', additionalProperties: { type: 'number' } },
    either: { 'x-kubernetes-int-or-string': true },
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    'a-b.c/d': { type: 'string' },
    in: { type: 'string' },
    with__two: { type: 'string' },
    'not nameable': { type: 'string' },
    nested: { type: 'object', properties: { deep: { type: 'object', properties: { at: { type: 'string', format: 'date' } } } } },
  },
};
const self = typeOfSchema(schema, { name: 'self', resource: true });
const env = kubernetesEnvironment({ variables: { self: self.type, oldSelf: self.type } });
const json = {
  apiVersion: 'v1',
  kind: 'K',
  metadata: { name: 'n' },
  replicas: 3,
  ratio: 2,
  when: '2026-01-01T00:00:00Z',
  every: '90s',
  blob: 'aGk=',
  tags: ['a', 'b'],
  ports: [
    { name: 'http', port: 80 },
    { name: 'https', port: 443 },
  ],
  plain: ['x', 'y'],
  limits: { cpu: 1 },
  either: '50%',
  free: { any: { thing: 1 } },
  'a-b.c/d': 'v',
  in: 'i',
  with__two: 'w',
  nested: { deep: { at: '2026-02-03' } },
};
const run = (source: string, old: object = json) => {
  const { program, message } = compile(source, env, { expect: [bool] });
  if (program === undefined) throw new Error(message);
  const { value, error } = program.evaluate({ self: self.value(json), oldSelf: self.value(old) });
  return error?.message ?? value;
};

describe('values of a structural schema', () => {
  const truths = [
    'self.replicas == 3 && self.metadata.name == "n" && self.kind == "K"',
    'self.ratio == 2.0 && self.ratio / 4.0 == 0.5',
    'self.when < timestamp("2026-06-01T00:00:00Z") && self.when.getFullYear() == 2026',
    'self.every == duration("1m30s")',
    'self.blob == b"hi"',
    'self.limits.cpu == 1.0 && self.limits.all(k, self.limits[k] < 2.0)',
    'self.either == "50%" && type(self.either) == string',
    'self.a__dash__b__dot__c__slash__d == "v" && self.__in__ == "i" && self.with__underscores__two == "w"',
    'has(self.a__dash__b__dot__c__slash__d)',
    'self.nested.deep.at.getMonth() == 1',
    'self.ports.filter(p, p.port > 100).map(p, p.name) == ["https"]',
  ];
  it.each(truths)('%s', (source) => expect(run(source)).toBe(true));

  it('compare sets and maps independent of their order', () => {
    const turned = { ...json, tags: ['b', 'a'], ports: [...json.ports].reverse(), plain: ['y', 'x'] };
    expect(run('self.tags == oldSelf.tags && self.ports == oldSelf.ports', turned)).toBe(true);
    expect(run('self.plain == oldSelf.plain', turned)).toBe(false);
    expect(run('self == oldSelf', { ...turned, plain: ['x', 'y'] })).toBe(true);
    expect(run('self.tags + ["b", "c"] == ["a", "b", "c"] && (self.tags + ["b"]).size() == 2')).toBe(true);
    expect(run('self.ports + oldSelf.ports == self.ports')).toBe(true);
    expect(run('self.tags == oldSelf.tags', { ...json, tags: ['a', 'c'] })).toBe(false);
  });

  it('have only the fields of the schema', () => {
    expect(() => run('self.nothing == 1')).toThrow("undefined field 'nothing'");
    expect(() => run('self.free.any == 1'), 'a preserved unknown field').toThrow("undefined field 'any'");
    expect(run('self.free == oldSelf.free')).toBe(true);
    expect(() => run('self.metadata.labels == 1')).toThrow("undefined field 'labels'");
    expect(() => run('self.replicas == "3"')).toThrow("found no matching overload for '_==_' applied to '(int, string)'");
  });

  it('have escaped names', () => {
    expect(['a-b', 'a.b', 'a/b', 'a__b', 'namespace', 'x_y'].map(escapeName)).toEqual([
      'a__dash__b',
      'a__dot__b',
      'a__slash__b',
      'a__underscores__b',
      '__namespace__',
      'x_y',
    ]);
    expect(['', '1a', 'a b', 'ä'].map(escapeName)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('static estimates', () => {
  const estimate = (source: string, of: StructuralSchema) => {
    const type = typeOfSchema(of, { name: 'self' });
    const { program, message } = compile(source, kubernetesEnvironment({ variables: { self: type.type } }));
    if (program === undefined) throw new Error(message);
    return estimateCost(program, type.size).max;
  };
  const strings = (maxItems?: number, maxLength?: number): StructuralSchema => ({
    type: 'array',
    ...(maxItems !== undefined && { maxItems }),
    items: { type: 'string', ...(maxLength !== undefined && { maxLength }) },
  });
  it('grow with the limits of the schema', () => {
    expect(estimate('self.all(s, s.contains("x"))', strings(10, 10))).toBeLessThan(100);
    expect(estimate('self.all(s, s.contains("x"))', strings(10, 1000))).toBeGreaterThan(1000);
    expect(estimate('self.all(a, self.all(b, a == b))', strings(100, 10))).toBeLessThan(maxRuleCost);
    expect(estimate('self.all(a, self.all(b, a == b))', strings())).toBeGreaterThan(maxRuleCost);
    expect(estimate('self.all(a, self.all(b, a == b))', strings(10_000, 10))).toBeGreaterThan(maxRuleCost);
    expect(estimate('self.matches("[a-z]+")', { type: 'string', maxLength: 100 })).toBe(83);
  });
  it('are never below the actual cost', () => {
    const type = typeOfSchema(strings(20, 20), { name: 'self' });
    const value = Array.from({ length: 20 }, (_, i) => `${i}`.padStart(20, 'x'));
    for (const source of [
      'self.all(s, s.startsWith("x"))',
      'self.exists(s, s.matches("9$"))',
      'self.map(s, s + "!").filter(s, s.size() > 3).size() > 0',
      'self.join(",").split(",").size() == 20',
      '{"a": self}.a.exists_one(s, s.endsWith("19"))',
      'self.map(s, s.upperAscii()).all(s, s in self.reverse().sort().distinct())',
      'self[?0].orValue("").replace("x", "yy").size() > 1',
    ]) {
      const { program, message } = compile(source, kubernetesEnvironment({ variables: { self: type.type } }));
      if (program === undefined) throw new Error(message);
      const { cost } = program.evaluate({ self: value });
      expect(estimateCost(program, type.size).max, source).toBeGreaterThanOrEqual(cost);
    }
  });
});

describe('JSON', () => {
  const jsonOf = (source: string) => {
    const value = compile(source, kubernetesEnvironment({ variables: {} })).program?.evaluate({}).value;
    return value === undefined ? undefined : toJson(value);
  };
  it('is the result of toJson', () => {
    expect(
      jsonOf(
        '{"a": dyn([dyn(1), dyn(2.0), dyn(1.5), dyn("s"), dyn(true), null]), "b": {"c": b"hi"}, "t": timestamp("2026-01-01T00:00:00Z"), "d": duration("90s")}',
      ),
    ).toEqual({
      a: [1, 2, 1.5, 's', true, null],
      b: { c: 'aGk=' },
      t: '2026-01-01T00:00:00Z',
      d: '90s',
    });
    expect(() => jsonOf('{1: 2}')).toThrow('unsupported map key');
    expect(() => jsonOf('quantity("1")')).toThrow('no JSON form');
  });
});

it('formats types as cel-go does', () => {
  expect(formatType(typeOfSchema(schema, { name: 'T' }).type)).toBe('T');
  expect(formatType(typeOfSchema({ type: 'object', additionalProperties: { type: 'array', items: { type: 'number' } } }).type)).toBe(
    'map(string, list(double))',
  );
});
