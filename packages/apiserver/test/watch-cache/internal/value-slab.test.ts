import { expect, it } from 'vitest';
import { ValueSlab } from '../../../src/watch-cache/internal/value-slab.ts';

const texts = Array.from({ length: 100 }, (_, i) => `${'ä'.repeat(i * 17)}${i}`);

it('keeps each value as it is, beside others of its kind alone', () => {
  const [one, other] = [new ValueSlab(), new ValueSlab()];
  const values = texts.map((text) => [one.write(text), other.write(text)] as const);
  for (const [i, [a, b]] of values.entries()) {
    expect(a.toString()).toBe(texts[i]);
    expect(b.toString()).toBe(texts[i]);
    expect(a.buffer).not.toBe(b.buffer);
  }
  const small = values.map(([a]) => a).filter(({ length }) => length <= 1024);
  const slabs = new Set(small.map(({ buffer }) => buffer));
  const bytes = small.reduce((sum, { length }) => sum + length, 0);
  // the last is not full, and what does not fit into the rest of one begins another
  expect(slabs.size).toBeLessThanOrEqual(Math.ceil(bytes / (16_384 - 1_024)) + 1);
});

it('gives what is large its own', () => {
  const room = new ValueSlab();
  const large = room.write('x'.repeat(2000));
  expect(large.buffer.byteLength).toBe(2000);
});
