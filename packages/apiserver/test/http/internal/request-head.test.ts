import { expect, it } from 'vitest';
import { headFault, maxHeaderPairs } from '../../../src/http/internal/request-head.ts';

const fault = (names: readonly string[], httpVersion = '1.1') =>
  headFault({ rawHeaders: names.flatMap((name) => [name, 'x']), httpVersion });

it.each([
  [['Host'], '1.1', undefined],
  [['accept', 'hOST', 'hostx'], '1.1', undefined],
  [[], '1.0', undefined],
  [[], '1.1', 400],
  [['X-Host'], '1.1', 400],
  [['Host', 'host'], '1.1', 400],
  [['Host', 'Host'], '1.0', 400],
  [[], '0.9', 400],
  [['Host'], '2.0', 505],
])('%j of HTTP/%s: %s', (names, version, expected) => {
  expect(fault(names, version)).toBe(expected);
});

it('the number of headers is bounded', () => {
  const names = Array.from({ length: maxHeaderPairs }, (_, index) => (index === 0 ? 'Host' : `X-${index}`));
  expect(fault(names)).toBeUndefined();
  expect(fault([...names, 'X-Last'])).toBe(431);
});
