import { expect, it } from 'vitest';
import { samplesOf } from '../src/prometheus-text.ts';

it('parses samples with labels, escapes and infinite bounds', () => {
  const text = [
    '# HELP a_total x',
    'a_total 3',
    String.raw`b_bucket{le="+Inf",name="x \"y\" \\ z",path="a}b"} 4 1700000000000`,
    'not a sample',
    'c +Inf',
    '',
  ].join('\n');
  expect([...samplesOf(text)]).toEqual([
    { name: 'a_total', labels: {}, value: 3 },
    { name: 'b_bucket', labels: { le: '+Inf', name: String.raw`x "y" \ z`, path: 'a}b' }, value: 4 },
    { name: 'c', labels: {}, value: Infinity },
  ]);
  expect([...samplesOf(text, (name) => name === 'c')]).toHaveLength(1);
});
