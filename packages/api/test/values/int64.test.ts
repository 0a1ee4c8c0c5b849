import { describe, expect, it } from 'vitest';
import { parseInt64 } from '../../src/values/int64.ts';

describe('parseInt64', () => {
  it.each([
    ['0', 0n],
    ['+7', 7n],
    ['-007', -7n],
    ['00000000000000000000001', 1n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
  ])('parses %s', (text, value) => expect(parseInt64(text)).toBe(value));

  it.each(['', '+', '1.5', '0x10', '1e3', '1_000', ' 1', '1n', '9223372036854775808', '-9223372036854775809'])('rejects %j', (text) =>
    expect(parseInt64(text)).toBeUndefined(),
  );
});
