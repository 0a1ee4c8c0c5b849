import { describe, expect, it } from 'vitest';
import { figuresOfLine, rowsOf } from './bench-against.mjs';

const figures = (value) => new Map([['create', { value, unit: 'us' }]]);

describe('bench against a commit', () => {
  it('prints the medians of both builds and the median and extremes of the ratios of pairs', () => {
    const pairs = [
      { ours: figures(150.4), theirs: figures(100) },
      { ours: figures(90), theirs: figures(100) },
      { ours: figures(10), theirs: figures(5) },
    ];
    expect(rowsOf(pairs)).toEqual([{ what: 'create', ours: '90.0 us', theirs: '100 us', ratio: '1.50', spread: '0.90 to 2.00' }]);
  });

  it('leaves out figures that only one build prints', () => {
    expect(rowsOf([{ ours: figures(1), theirs: new Map() }])).toEqual([]);
  });

  it.each([
    [
      'creates of a Pod per second                        1789 /s  (1.20 x with etcd: 1491 /s)',
      [['creates of a Pod per second', { value: 1789, unit: '/s' }]],
    ],
    [
      'creates of a ConfigMap of 1 KB per second           2211 /s',
      [['creates of a ConfigMap of 1 KB per second', { value: 2211, unit: '/s' }]],
    ],
    [
      'creates of a ConfigMap of 1 KB, processor time of the server      440 us',
      [['creates of a ConfigMap of 1 KB, processor time of the server', { value: 440, unit: 'us' }]],
    ],
    [
      '{"podsPerSecond":4500,"cpuMicrosPerPod":210,"errors":0,"storage":"memory"}',
      [
        ['podsPerSecond', { value: 4500, unit: '' }],
        ['cpuMicrosPerPod', { value: 210, unit: '' }],
      ],
    ],
    ['the figures of the second run follow', []],
  ])('reads the figures of %s', (line, figures) => {
    expect(figuresOfLine(line)).toEqual(figures);
  });
});
