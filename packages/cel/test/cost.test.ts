import { describe, expect, it } from 'vitest';
import { kubernetesEnvironment } from '../src/environment.ts';
import { estimateCost } from '../src/estimate.ts';
import { compile } from '../src/program.ts';

const env = kubernetesEnvironment({ variables: {} });
const costs = (source: string): readonly [min: number, max: number, actual: number] => {
  const { program, message } = compile(source, env);
  if (program === undefined) throw new Error(message);
  const { min, max } = estimateCost(program, {});
  return [min, max, program.evaluate({}).cost];
};

/** What cel-go with the libraries of Kubernetes 1.36 estimates, at least and at most, and what an evaluation costs. */
const same: Readonly<Record<string, readonly [min: number, max: number, actual: number]>> = {
  // a text is read at a tenth of its length; what is rewritten is read and made
  "'abcdefghij ABCDEFGHIJ'.upperAscii()": [3, 3, 3],
  "'abcdefghijklmno'.replace('abc', '')": [3, 3, 3],
  "'abcdefghijklmno'.split('d')": [3, 3, 3],
  "'abcdefghijklmno'.split('d', 2)": [3, 3, 3],
  "'abcdefghijklmno'.substring(4)": [2, 2, 2],
  // amounts are compared at once
  'quantity("10M") == quantity("0.01G")': [3, 3, 3],
  'quantity("10k").add(quantity("5")) == quantity("10.005k")': [5, 5, 5],
  // folds: what is made before, for each, and of the result
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

describe('costs', () => {
  it.each(Object.entries(same))('%s', (source, expected) => {
    expect(costs(source)).toEqual(expected);
  });

  it.each([
    ["['aa', 'bb', 'cc', 'dd', 'ee', 'ff', 'gg', 'hh', 'ii', 'jj'].join()", 14],
    ["['aa', 'bb', 'cc', 'dd', 'ee', 'ff', 'gg', 'hh', 'ii', 'jj'].join('-')", 16],
    ['format.dns1123Subdomain().validate("my-name")', 16],
    ['format.dns1123Label().validate("my-name")', 9],
  ])('%s costs what its result or its pattern is worth', (source, expected) => {
    const [min, max, actual] = costs(source);
    expect(actual).toBe(expected);
    expect(min).toBeLessThanOrEqual(actual);
    expect(max).toBeGreaterThanOrEqual(actual);
  });

  it('of a long text that is joined are not those of a short one', () => {
    const [, max, actual] = costs(`['${'x'.repeat(5_000)}', '${'y'.repeat(5_000)}'].join(',')`);
    expect(actual).toBe(10 + 2_001);
    expect(max).toBe(10 + 2_001);
  });
});
