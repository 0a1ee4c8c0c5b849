import { expect, it } from 'vitest';
import { ValueSlab } from '../../../src/watch-cache/internal/value-slab.ts';

const texts = Array.from({ length: 100 }, (_, i) => `${'ä'.repeat(i * 17)}${i}`);

it('ValueSlab stores small values unchanged in shared buffers', () => {
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
  // the last buffer is not full, and a value that does not fit into a buffer starts another one
  expect(slabs.size).toBeLessThanOrEqual(Math.ceil(bytes / (16_384 - 1_024)) + 1);
});

it('ValueSlab stores a large value in a buffer of its own', () => {
  const slab = new ValueSlab();
  const large = slab.write('x'.repeat(2000));
  expect(large.buffer.byteLength).toBe(2000);
});
