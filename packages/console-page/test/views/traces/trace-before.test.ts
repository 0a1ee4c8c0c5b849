import { describe, expect, it } from 'vitest';
import { traceBefore } from '../../../src/views/traces/trace-before.ts';

const second = Date.parse('2026-01-01T00:00:10Z');
const writes = [
  { traceId: 'late', start: second + 5000 },
  { traceId: 'same', start: second + 400 },
  { traceId: 'early', start: second - 5000 },
];

describe('traceBefore', () => {
  it.each([
    ['2026-01-01T00:00:10Z', 'same'],
    ['2026-01-01T00:00:10.300000Z', 'early'],
    ['2026-01-01T00:00:09Z', 'early'],
    ['2026-01-01T00:00:01Z', undefined],
    ['', 'late'],
  ])('at %s: %s', (at, expected) => {
    expect(traceBefore(writes, at)).toBe(expected);
  });
});
