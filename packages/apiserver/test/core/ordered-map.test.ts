import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OrderedMap } from '../../src/watch-cache/ordered-map.ts';

const keys = fc.stringMatching(/^[ab/]{1,4}$/);

describe('OrderedMap', () => {
  it('agrees with a sorted list, whatever is done to it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.boolean(), keys), { maxLength: 200 }),
        fc.string({ maxLength: 2, unit: fc.constantFrom('a', 'b', '/') }),
        fc.oneof(fc.constant(''), keys),
        (steps, prefix, after) => {
          const map = new OrderedMap<number>();
          const model = new Map<string, number>();
          for (const [i, [add, key]] of steps.entries()) {
            if (add) {
              map.set(key, i);
              model.set(key, i);
            } else expect(map.delete(key)).toBe(model.delete(key));
          }
          const wanted = [...model.keys()].filter((key) => key.startsWith(prefix) && (after === '' || key > after)).sort();
          const seen: string[] = [];
          map.scan(prefix, after, (key, value) => {
            expect(value).toBe(model.get(key));
            seen.push(key);
            return true;
          });
          expect(seen).toEqual(wanted);
          expect(map.count(prefix, after)).toBe(wanted.length);
          expect(map.size).toBe(model.size);
        },
      ),
    );
  });

  it('keeps order over many chunks and counts from the middle', () => {
    const map = new OrderedMap<number>();
    for (let i = 0; i < 5_000; i++) map.set(`ns/${String((i * 7919) % 5_000).padStart(5, '0')}`, i);
    const seen: string[] = [];
    map.scan('ns/', '', (key) => {
      seen.push(key);
      return true;
    });
    expect(seen).toEqual([...seen].sort());
    expect(seen).toHaveLength(5_000);
    expect(map.count('ns/', 'ns/02499')).toBe(2_500);
    for (let i = 0; i < 5_000; i += 2) map.delete(`ns/${String(i).padStart(5, '0')}`);
    expect(map.count('ns/')).toBe(2_500);
  });

  it('stops when the visitor has enough', () => {
    const map = new OrderedMap<number>();
    for (const key of ['a', 'b', 'c']) map.set(key, 0);
    const seen: string[] = [];
    map.scan('', '', (key) => {
      seen.push(key);
      return seen.length < 2;
    });
    expect(seen).toEqual(['a', 'b']);
  });
});
