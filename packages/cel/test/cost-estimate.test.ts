import { describe, expect, it } from 'vitest';
import { environment, kubernetesEnvironment } from '../src/checker/environment.ts';
import { estimateCost } from '../src/cost-estimate.ts';
import { AuthorizerValue, authorizerType } from '../src/libraries/authorizer.ts';
import { kubernetesLibraries } from '../src/libraries/kubernetes-libraries.ts';
import { compile } from '../src/program.ts';

const env = kubernetesEnvironment({ variables: {} });
const costs = (source: string): readonly [min: number, max: number, actual: number] => {
  const { program, message } = compile(source, env);
  if (program === undefined) throw new Error(message);
  const { min, max } = estimateCost(program);
  return [min, max, program.evaluate({}).cost];
};

/** The minimum and maximum estimates of cel-go with the libraries of Kubernetes 1.36, and the actual cost. */
const same: Readonly<Record<string, readonly [min: number, max: number, actual: number]>> = {
  // reading a text costs a tenth of its length; a rewritten text is read and created
  "'abcdefghij ABCDEFGHIJ'.upperAscii()": [3, 3, 3],
  "'abcdefghijklmno'.replace('abc', '')": [3, 3, 3],
  "'abcdefghijklmno'.split('d')": [3, 3, 3],
  "'abcdefghijklmno'.split('d', 2)": [3, 3, 3],
  "'abcdefghijklmno'.substring(4)": [2, 2, 2],
  // quantities compare at constant cost
  'quantity("10M") == quantity("0.01G")': [3, 3, 3],
  'quantity("10k").add(quantity("5")) == quantity("10.005k")': [5, 5, 5],
  // lists: by the elements of the result, by each pair of elements where a function compares them
  'lists.range(5)': [16, 16, 16],
  '[1, 2, 3].reverse()': [24, 24, 24],
  '[1, 2, 3, 4].slice(1, 3)': [23, 23, 23],
  '[[1], [2, 3]].flatten()': [43, 43, 43],
  '[3, 2, 1].sort()': [39, 39, 39],
  "['b', 'a'].sort()": [30, 30, 29],
  '[1, 1].distinct()': [29, 29, 29],
  // types have a constant size
  "type(7) == int || type('a') == string": [3, 6, 3],
  // comprehensions: cost before the first element, per element, and of the result
  '[7, 8].all(i, v, v > 0)': [17, 21, 21],
  '[7, 8].exists(i, v, v > 0)': [19, 23, 20],
  '[7, 8].existsOne(i, v, v > 7)': [18, 20, 19],
  '[7, 8].transformList(i, v, v + 1)': [49, 49, 49],
  '[7, 8].transformList(i, v, v > 0, v + 1)': [27, 53, 53],
  '[7, 8].map(v, v + 1)': [49, 49, 49],
  "{'x': 7, 'y': 8}.all(k, v, v > 0)": [37, 41, 41],
  "{'x': 7, 'y': 8}.exists(k, v, v > 0)": [39, 43, 40],
  "{'x': 7, 'y': 8}.transformMap(k, v, v + 1)": [71, 71, 71],
  "{'x': 7, 'y': 8}.transformMap(k, v, v > 0, v + 1)": [67, 75, 75],
  "{'x': 7, 'y': 8}.transformMapEntry(k, v, {k: v + 1})": [131, 131, 131],
  "{'x': 7, 'y': 8}.transformMapEntry(k, v, v > 0, {k: v + 1})": [67, 135, 135],
};

/** As `same`, with lists of mixed types and with authorizers. */
const others: Readonly<Record<string, readonly [min: number, max: number, actual: number]>> = {
  // texts are compared to the first difference or the end of the shorter one
  "'Abcdefghijklmnopqrstu'.lowerAscii() == 'aBcdefghijklmnopqrstu'.lowerAscii()": [7, 9, 9],
  "strings.quote('abcdefghijklmnopqrstu') == strings.quote('abcdefghijklmnopqrstu')": [7, 11, 9],
  'format.named("dns1035Label").value() == format.named("dns1035Label").value()': [5, 11, 5],
  'url("http://a.b/c") == url("http://a.b/c")': [5, 6, 5],
  // sets: each element with each, in one or both directions
  'sets.contains([7], [7.0, 7])': [23, 23, 23],
  'sets.contains([7, 8u], [8, 8.0])': [25, 25, 25],
  'sets.contains([[7], [8, 9]], [[8, 9.0]])': [53, 53, 53],
  '!sets.contains([7], ["7", 7])': [24, 24, 24],
  'sets.equivalent([7], [7u, 7.0])': [25, 25, 25],
  'sets.equivalent([7, 8, 9], [9u, 8.0, 7])': [39, 39, 39],
  'sets.equivalent([[7.0], [8, 9]], [[7], [8, 9.0]])': [69, 69, 69],
  'sets.intersects([7, 8], [7u, 8, 8.3])': [27, 27, 27],
  'sets.intersects([[7], [8, 9]], [[7, 8], [8, 9.0]])': [65, 65, 65],
  '!sets.intersects([], [])': [22, 22, 22],
  // building a check costs 1 per call, the check itself most; selectors are parsed into requirements
  "authorizer.path('/livez')": [2, 2, 2],
  "authorizer.group('batch').resource('jobs').subresource('status').namespace('n').name('j')": [6, 6, 6],
  "authorizer.path('/livez').check('get').allowed()": [350_003, 350_003, 350_003],
  "authorizer.group('batch').resource('jobs').check('list').errored()": [350_004, 350_004, 350_004],
  "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=n')": [415, 415, 415],
  "authorizer.group('').resource('pods').labelSelector('a=b')": [114, 114, 114],
};

describe('costs with lists of mixed types', () => {
  const mixed = environment({ variables: { authorizer: authorizerType }, libraries: kubernetesLibraries });

  it.each(Object.entries(others))('%s', (source, expected) => {
    const { program, message } = compile(source, mixed);
    if (program === undefined) throw new Error(message);
    const { min, max } = estimateCost(program);
    const { cost, error } = program.evaluate({ authorizer: new AuthorizerValue(() => ({ decision: 'allow' })) });
    expect(error).toBeUndefined();
    expect([min, max, cost]).toEqual(expected);
  });

  it('do not apply to the Kubernetes environment, in which lists are homogeneous', () => {
    expect(compile('sets.contains([7], [7.0, 7])', env).message).toContain("expected type 'double' but found 'int'");
  });
});

describe('costs', () => {
  it.each(Object.entries(same))('%s', (source, expected) => {
    expect(costs(source)).toEqual(expected);
  });

  // as upstream, the estimate knows neither the texts of a list literal nor the pattern of a format
  it.each([
    ["['aa', 'bb', 'cc', 'dd', 'ee', 'ff', 'gg', 'hh', 'ii', 'jj'].join()", 14],
    ["['aa', 'bb', 'cc', 'dd', 'ee', 'ff', 'gg', 'hh', 'ii', 'jj'].join('-')", 16],
  ])('%s costs what its result is worth', (source, expected) => {
    const [min, max, actual] = costs(source);
    expect(actual).toBe(expected);
    expect(min).toBeLessThanOrEqual(actual);
    expect(max).toBeGreaterThanOrEqual(actual);
  });

  it.each([
    ['format.dns1123Subdomain().validate("my-name")', [33, 33, 16]],
    ['format.dns1123Label().validate("my-name")', [33, 33, 9]],
  ])('%s is estimated with the longest pattern of a format', (source, expected) => {
    expect(costs(source)).toEqual(expected);
  });

  it('of joining grow with the length of the text', () => {
    const [, max, actual] = costs(`['${'x'.repeat(5_000)}', '${'y'.repeat(5_000)}'].join(',')`);
    expect(actual).toBe(10 + 2_001);
    expect(max).toBeGreaterThan(actual);
  });
});
