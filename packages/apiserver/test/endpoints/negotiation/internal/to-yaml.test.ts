import { describe, expect, it } from 'vitest';
import { compareKeys, toYaml } from '../../../../src/endpoints/negotiation/internal/yaml-encoding.ts';

/** The YAML that sigs.k8s.io/yaml writes for API objects. */
describe('YAML response', () => {
  it('has sorted keys and list items at the indentation of their key', () => {
    expect(toYaml({ kind: 'X', items: [{ b: 1, a: [2] }], apiVersion: 'v1', 'f:spec': { '.': {}, 'k:{"name":"a"}': {} } })).toBe(
      'apiVersion: v1\nf:spec:\n  .: {}\n  k:{"name":"a"}: {}\nitems:\n- a:\n  - 2\n  b: 1\nkind: X\n',
    );
    expect(['a10', 'a2', 'b', 'A', '_x', 'a', '10', '9', 'a-b'].sort(compareKeys)).toEqual([
      '_x',
      '9',
      '10',
      'A',
      'a',
      'a-b',
      'a2',
      'a10',
      'b',
    ]);
  });

  it.each([
    ['true', '"true"'],
    ['n', '"n"'],
    ['1', '"1"'],
    ['1e3', '"1e3"'],
    ['', '""'],
    ['~', '"~"'],
    ['2026-01-01T00:00:00Z', '"2026-01-01T00:00:00Z"'],
    ['a: b', "'a: b'"],
    ['- a', "'- a'"],
    ['{a}', "'{a}'"],
    ["it's", "it's"],
    ['x\ny\n', '|\n  x\n  y\n'.trimEnd()],
  ])('writes %j as %s', (value, text) => {
    expect(toYaml({ a: value })).toBe(`a: ${text}\n`);
  });

  it('keeps all digits of integers and writes exponents of large floats', () => {
    expect(toYaml({ a: 9007199254740993n, b: 1e20, c: 1.5, d: 1_234_567.5, e: 0.000_01, f: -3 })).toBe(
      'a: 9007199254740993\nb: 1e+20\nc: 1.5\nd: 1.2345675e+06\ne: 1e-05\nf: -3\n',
    );
  });
});
