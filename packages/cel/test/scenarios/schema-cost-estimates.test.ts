import { describe, expect, it } from 'vitest';
import { kubernetesEnvironment } from '../../src/checker/environment.ts';
import { estimateCost } from '../../src/cost-estimate.ts';
import { compile } from '../../src/program.ts';
import { typeOfSchema, type StructuralSchema } from '../../src/types/schema-type.ts';

type Schema = (limit?: number) => StructuralSchema;

const item = (type: string): StructuralSchema =>
  type === 'int-or-string'
    ? { 'x-kubernetes-int-or-string': true }
    : ['duration', 'date', 'date-time', 'byte'].includes(type)
      ? { type: 'string', format: type }
      : { type };
const list =
  (of: string | StructuralSchema): Schema =>
  (limit) => ({ type: 'array', items: typeof of === 'string' ? item(of) : of, ...(limit !== undefined && { maxItems: limit }) });
const map =
  (of: string | StructuralSchema): Schema =>
  (limit) => ({
    type: 'object',
    additionalProperties: typeof of === 'string' ? item(of) : of,
    ...(limit !== undefined && { maxProperties: limit }),
  });
const text: Schema = (limit) => ({ type: 'string', ...(limit !== undefined && { maxLength: limit }) });
const bytes: Schema = (limit) => ({ ...text(limit), format: 'byte' });
const texts: Schema = (limit) => list(text(limit))(limit);
const choice: Schema = (limit) => ({ ...text(limit), enum: ['A', 'B', 'C', 'LongValue'] });
const object = (properties: Readonly<Record<string, StructuralSchema>>, required: readonly string[] = []): StructuralSchema => ({
  type: 'object',
  properties,
  required,
});
const pair = object({ required: item('string'), optional: item('string') }, ['required']);
/** A list of maps of objects, of which the list, the maps and the strings are limited. */
const nested: Schema = (limit) => list(map(object({ required: text(limit) }, ['required']))(limit))(limit);

/** Rules on the root of a schema, with the estimates of Kubernetes without a limit and with the limit on the sizes of the schema. */
const estimates: readonly (readonly [schema: Schema, rule: string, unlimited: number, limit: number, limited: number])[] = [
  [list('number'), 'self.all(x, true)', 4_718_591, 10, 32],
  [list('string'), 'self.all(x, true)', 3_145_727, 20, 62],
  [list('boolean'), 'self.all(x, true)', 1_887_437, 5, 17],
  [list(list('number')()), 'self.all(x, true)', 3_145_727, 100, 302],
  [map('number'), 'self.all(x, true)', 1_348_169, 10, 32],
  [map('string'), 'self.all(x, true)', 1_179_647, 3, 11],
  [map('boolean'), 'self.all(x, true)', 943_718, 100, 302],
  [text, "self.contains('test')", 314_574, 10, 5],
  [text, "self.startsWith('test')", 2, 15, 2],
  [text, "self.endsWith('test')", 2, 30, 2],
  [text, 'size(self + "hello") > size("hello")', 314_578, 4, 7],
  [list('number'), 'self[1] == 0.0', 2, 5000, 2],
  [list('string'), 'self[1] == self[1]', 314_577, 8, 314_577],
  [list('number'), 'self.all(x, self.all(y, self.all(z, true)))', 2 ** 61, 10, 3552],
  [text, 'self.matches("x")', 314_574, 50, 22],
  [text, '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7],
  [text, 'self.matches("")', 1, 100, 1],
  [map('number'), 'self["x"] == 0.0', 2, 0, 2],
  [text, 'self == "x"', 2, 0, 1],
  [bytes, 'self == b"x"', 2, 0, 1],
  [list('number'), 'self.all(x, x == 0.0)', 6_291_454, 3 * 1024 * 2048, 25_165_826],
  [list('int-or-string'), 'self.all(x, true)', 4_718_591, 10, 32],
  [list('int-or-string'), 'self[0] == 5', 3, 10, 3],
  [list('boolean'), 'self[0] == false', 2, 25, 2],
  [list(list('number')()), 'self[0][0] == -1.0', 3, 51, 3],
  [list(map('number')()), 'self.all(x, x.y == 25.2)', 6_291_452, 12, 74],
  [list(map('number')()), 'self[0].x > 2.0', 4, 3000, 4],
  [list('duration'), 'self.all(x, true)', 2_359_295, 5, 17],
  [list('duration'), 'self[0].getHours() == 2', 4, 525, 4],
  [list('date'), 'self.all(x, true)', 725_936, 15, 47],
  [list('date-time'), 'self.all(x, true)', 428_963, 25, 77],
  [list('date-time'), 'self[2].getMinutes() == 45', 4, 99, 4],
  [map('int-or-string'), 'self.all(x, true)', 1_348_169, 15, 47],
  [map(pair), 'self.all(x, true)', 428_963, 20, 62],
  [map(map('number')()), 'self.all(x, true)', 1_179_647, 10, 32],
  [map('duration'), 'self.all(x, true)', 1_048_577, 5, 17],
  [map('date'), 'self.all(x, true)', 524_288, 10, 32],
  [map('date-time'), 'self.all(x, true)', 349_526, 25, 77],
  [map('date-time'), 'self["a"] == self["b"]', 8, 7, 8],
  [map('duration'), 'self["c"] == self["d"]', 8, 42, 8],
  [map('integer'), 'oldSelf.size() == self.size()', 5, 10, 5],
  [text, "self.find('[0-9]+') == ''", 629_147, 10, 11],
  [texts, "self.join(' ') == 'aa bb'", 329_853_068_905, 10, 43],
  [texts, 'self.isSorted() == true', 329_854_432_052, 10, 52],
  [text, "self.lowerAscii() == 'lower!'", 314_575, 10, 6],
  [choice, "self.contains('A')", 2, 1000, 401],
  [nested, 'self.all(x, x["y"].required == "z")', 7_340_027, 10, 72],
];

const estimate = (schema: StructuralSchema, rule: string): number => {
  const type = typeOfSchema(schema, { name: 'self' });
  const { program, message } = compile(rule, kubernetesEnvironment({ variables: { self: type.type, oldSelf: type.type } }));
  if (program === undefined) throw new Error(message);
  return estimateCost(program, type.size).max;
};

describe('static cost estimates of rules', () => {
  it.each(estimates)('$1', (schema, rule, unlimited, limit, limited) => {
    const cost = estimate(schema(), rule);
    if (unlimited < 1e15) expect(cost).toBe(unlimited);
    else expect(cost).toBeGreaterThanOrEqual(unlimited);
    expect(estimate(schema(limit), rule)).toBe(limited);
  });

  it('of fields are equal to those of upstream', () => {
    const replaceable = (limit?: number) => object({ str: text(limit), before: text(2), after: text(4) });
    const replacement = "self.str.replace(self.before, self.after) == 'does not matter'";
    expect(estimate(replaceable(), replacement)).toBe(629_154);
    expect(estimate(replaceable(4), replacement)).toBe(12);
    const separable = (limit?: number) => object({ str: text(limit), separator: text(limit) });
    expect(estimate(separable(), 'self.str.split(self.separator) == []')).toBe(629_160);
    expect(estimate(separable(10), 'self.str.split(self.separator) == []')).toBe(22);
  });

  it('ignore the size of the keys of a map', () => {
    const labels = map('string');
    expect(estimate(labels(10), 'self.all(k, k.contains(self[k]))')).toBe(72);
    expect(estimate(labels(), "self.all(k, k.matches('^[a-z]+$') && k.size() < 64)")).toBeLessThan(10_000_000);
  });

  it('of functions without an estimate do not depend on the text', () => {
    for (const rule of ['isIP(self)', 'isCIDR(self)', 'isQuantity(self)', "quantity(self) == quantity('1')"])
      expect(estimate(text(), rule)).toBeLessThanOrEqual(4);
    expect(estimate(text(), "quantity(self) != quantity('1')")).toBeGreaterThan(10_000_000);
  });
});
