import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CelError } from '../../src/values/cel-error.ts';
import { kubernetesEnvironment } from '../../src/checker/environment.ts';
import { estimateCost } from '../../src/cost-estimate.ts';
import { compile } from '../../src/program.ts';
import { dyn } from '../../src/types/type.ts';

const env = kubernetesEnvironment({ bindings: true, variables: { x: dyn, y: dyn } });
const bindings = { x: { a: 1, s: 'text', l: [1, 'two', null, 3.5, { b: true }], m: { k: 'v' }, n: null }, y: [1, 2, 3] };

const atom = fc.constantFrom(
  ...[
    '1',
    '-1',
    '0',
    '9223372036854775807',
    '1.5',
    '2u',
    '"s"',
    'b"x"',
    'true',
    'false',
    'null',
    '[]',
    '{}',
    'x',
    'y',
    'x.a',
    'x.s',
    'x.l',
    'x.n',
    'int',
  ],
  ...[
    'duration("1h")',
    'timestamp("2026-01-01T00:00:00Z")',
    'optional.none()',
    'x.?zz',
    'quantity("1Gi")',
    'ip("::1")',
    'semver("1.2.3")',
    '[1, 2][0]',
  ],
);
const binary = fc.constantFrom('+', '-', '*', '/', '%', '==', '!=', '<', '<=', '>', '>=', '&&', '||', 'in');
const member = fc.constantFrom(
  ...[
    'size()',
    'sum()',
    'min()',
    'isSorted()',
    'orValue(1)',
    'value()',
    'trim()',
    'join()',
    'getFullYear()',
    'getHours("+01:00")',
    'matches("a+")',
  ],
  ...[
    'contains("t")',
    'split("t")',
    'substring(1)',
    'indexOf("t")',
    'find("[a-z]")',
    'format([1, "a"])',
    'replace("t", "tt")',
    'charAt(1)',
    'isLoopback()',
  ],
);
const expression: fc.Arbitrary<string> = fc.letrec<{ e: string }>((tie) => ({
  e: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    atom,
    fc.tuple(tie('e'), binary, tie('e')).map(([a, op, b]) => `(${a} ${op} ${b})`),
    fc.tuple(tie('e'), member).map(([a, call]) => `dyn(${a}).${call}`),
    fc.tuple(tie('e'), tie('e'), tie('e')).map(([a, b, c]) => `(dyn(${a}) ? dyn(${b}) : dyn(${c}))`),
    fc
      .tuple(tie('e'), fc.constantFrom('all', 'exists', 'exists_one', 'map', 'filter'), tie('e'))
      .map(([a, macro, b]) => `dyn(${a}).${macro}(i, dyn(${b}))`),
    fc.tuple(tie('e'), tie('e')).map(([a, b]) => `dyn(${a})[dyn(${b})]`),
    fc.tuple(tie('e'), tie('e')).map(([a, b]) => `[dyn(${a}), dyn(${b})]`),
    fc.tuple(tie('e'), tie('e')).map(([a, b]) => `{dyn(${a}): dyn(${b})}`),
    fc.tuple(tie('e'), tie('e')).map(([a, b]) => `cel.bind(v, ${a}, dyn(v) == dyn(${b}))`),
    tie('e').map((a) => `string(dyn(${a}))`),
    tie('e').map((a) => `!dyn(${a})`),
  ),
})).e;

describe('random expressions', () => {
  it('compile or have issues', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: 'binary', maxLength: 30 }), expression), (source) => {
        const { program, message } = compile(source, env);
        if (program === undefined) expect(message).toMatch(/^ERROR: <input>:\d+:\d+: /);
      }),
      { numRuns: 300 },
    );
  });

  it('have a value or a CelError within their budget', () => {
    fc.assert(
      fc.property(expression, fc.integer({ min: 0, max: 500 }), (source, limit) => {
        const { program } = compile(source, env);
        if (program === undefined) return;
        const free = program.evaluate(bindings);
        expect(
          free.error === undefined || (free.error instanceof CelError && free.error.code !== 'internal'),
          `${source}: ${free.error?.message}`,
        ).toBe(true);
        const limited = program.evaluate(bindings, limit);
        if (free.cost > limit) expect(limited.error?.code, source).toBe('budget');
        else expect(limited, source).toEqual(free);
        const { min, max } = estimateCost(program);
        expect(min).toBeLessThanOrEqual(max);
      }),
      { numRuns: 300 },
    );
  });

  it('terminate quickly, however large their intermediate values', () => {
    const doubling = (start: string, step: (of: string) => string, times: number) => {
      let source = start;
      for (let i = 0; i < times; i++) source = `cel.bind(v${i}, ${source}, ${step(`v${i}`)})`;
      return source;
    };
    for (const source of [
      doubling('"ab"', (of) => `${of} + ${of}`, 60),
      doubling('[1, 2]', (of) => `${of} + ${of}`, 60),
      doubling('[1]', (of) => `[${of}, ${of}]`, 60),
      `${doubling('[1]', (of) => `[${of}, ${of}]`, 60)} == ${doubling('[1]', (of) => `[${of}, ${of}]`, 60)}`,
      doubling('"aaaa"', (of) => `${of}.replace("a", "aaaaaaaa")`, 60),
      `("${'a'.repeat(30)}b").matches("(a*)*$")`,
      '[1, 2, 3, 4, 5, 6, 7, 8, 9].map(a, y.map(b, y.map(c, y.map(d, y.map(e, y.map(f, y.map(g, y.map(h, y.map(i, y)))))))))',
    ]) {
      const { program, message } = compile(source, env);
      if (program === undefined) throw new Error(message);
      const outcome = program.evaluate(bindings, 1_000_000);
      expect(outcome.cost).toBeLessThan(10_000_000);
      if (outcome.error !== undefined) expect(['budget', 'out-of-range'], outcome.error.message).toContain(outcome.error.code);
    }
  });
});
