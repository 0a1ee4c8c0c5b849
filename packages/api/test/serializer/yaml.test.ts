import { parseYaml } from '@oarlock/api/serializer/yaml';
import { expect, it } from 'vitest';

const lines = (count: number, line: (index: number) => string) => Array.from({ length: count }, (_, index) => line(index)).join('\n');
const members = (count: number) => Array.from({ length: count }, (_, index) => `k${index}: v`).join(', ');
const deep = 'exceeded max depth';
const aliasing = 'document contains excessive aliasing';

it.each([
  ['brackets', `a: ${'['.repeat(3_000_000)}`, deep],
  ['braces', `a: ${'{a: '.repeat(500_000)}`, deep],
  ['dashes on one line', '- '.repeat(1_000_000), deep],
  ['questions on one line', '? '.repeat(1_000_000), deep],
  ['indentation', lines(1_000, (index) => `${' '.repeat(index)}a:`), deep],
  ['maps merged again and again', `x: &x {${members(3_000)}}\n${lines(90, (index) => `m${index}: {<<: *x}`)}`, aliasing],
  ['merged in one map', `x: &x {${members(3_000)}}\nm: {<<: [${Array(90).fill('*x').join(', ')}]}`, aliasing],
  [
    'lists of lists of lists',
    [
      'a: &a [x, x, x, x]',
      ...'bcdefghijk'.split('').map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefghij'[at]}`).join(', ')}]`),
    ].join('\n'),
    aliasing,
  ],
  ['an alias in every line', `a: &a v\n${lines(2_000, (index) => `k${index}: *a`)}`, aliasing],
] as const)('rejects a bomb of %s', (_, text, message) => {
  expect(() => parseYaml(text)).toThrow(message);
});

it('accepts documents within the bounds: depth, aliases and merges', () => {
  const text = `base: &base {cpu: 1, tags: [a, b]}\nweb: {<<: *base, cpu: 2}\nworker: *base\nlist: ${'['.repeat(50)}${']'.repeat(50)}\n${lines(60, (index) => `l${index}: ['-', '?']`)}`;
  const { base, web, worker } = parseYaml(text).value as Record<string, object>;
  expect([web, worker]).toEqual([{ cpu: 2, tags: ['a', 'b'] }, base]);
});
