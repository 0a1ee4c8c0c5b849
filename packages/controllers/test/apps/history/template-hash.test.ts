import { dataHash, fnv1, fnv1a, safeEncode, templateHash, templateText } from '@oarlock/controllers/apps/history/template-hash';
import { describe, expect, it } from 'vitest';

/** Computes the hash with exact integers. */
function fnvByBytes(text: string, order: 'multiply first' | 'xor first'): number {
  let hash = 0x811c9dc5n;
  const multiply = () => {
    hash = BigInt.asUintN(32, hash * 0x01000193n);
  };
  for (const byte of Buffer.from(text)) {
    if (order === 'multiply first') multiply();
    hash ^= BigInt(byte);
    if (order === 'xor first') multiply();
  }
  return Number(hash);
}

describe('fnv1', () => {
  // http://www.isthe.com/chongo/tech/comp/fnv/
  it.each([
    ['', 0x811c9dc5],
    ['a', 0x050c5d7e],
    ['foobar', 0x31f0b262],
    ['\u00e9\u{1f600}', fnvByBytes('\u00e9\u{1f600}', 'multiply first')],
  ])('hashes %j', (text, expected) => {
    expect(fnv1(text)).toBe(expected);
  });
});

describe('fnv1a', () => {
  // http://www.isthe.com/chongo/tech/comp/fnv/
  it.each([
    ['', 0x811c9dc5],
    ['a', 0xe40c292c],
    ['foobar', 0xbf9cf968],
    ['\u00e9\u{1f600}', fnvByBytes('\u00e9\u{1f600}', 'xor first')],
  ])('hashes %j', (text, expected) => {
    expect(fnv1a(text)).toBe(expected);
  });
});

describe('templateHash', () => {
  const template = (image: string) => ({ spec: { containers: [{ name: 'c', image }] } });

  it("has upstream's characters and length", () => {
    const hashes = Array.from({ length: 200 }, (_, i) => templateHash(template(`image:${i}`), 0));
    for (const hash of hashes) expect(hash).toMatch(/^[4-9bcdf]{1,10}$/);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it('depends on the number of collisions, and not on the label of the hash', () => {
    expect(templateHash(template('a'), 1)).not.toBe(templateHash(template('a'), 0));
    const labeled = { ...template('a'), metadata: { labels: { 'pod-template-hash': 'x' } } };
    expect(templateHash(labeled, 0)).toBe(templateHash({ ...template('a'), metadata: { labels: {} } }, 0));
  });
});

describe('safeEncode', () => {
  it("maps digits to upstream's alphabet", () => {
    expect(safeEncode('0123456789')).toBe('456789bcdf');
  });
});

describe('dataHash', () => {
  it('hashes the JSON that Go writes, and the number of collisions', () => {
    expect(dataHash({ a: '<&>' }, 0)).toBe(safeEncode(String(fnv1('{"a":"\\u003c\\u0026\\u003e"}0'))));
    expect(dataHash({ a: 1 }, 1)).not.toBe(dataHash({ a: 1 }, 0));
  });
});

describe('templateText', () => {
  /** Returns a template with so many variables, and counts the reads of its spec. */
  function countedTemplate(variables: number, isFrozen: boolean) {
    let reads = 0;
    const env = Array.from({ length: variables }, (_, n) => ({ name: `V${n}`, value: 'x' }));
    const template = {
      get spec() {
        reads++;
        return { containers: [{ name: 'c', env }] };
      },
    };
    return { template: isFrozen ? Object.freeze(template) : template, reads: () => reads };
  }

  it('of a large frozen template is computed once', () => {
    const { template, reads } = countedTemplate(14_000, true);
    const text = templateText(template);
    const after = reads();
    expect(after).toBeGreaterThan(0);
    expect(templateText(template)).toBe(text);
    expect(reads()).toBe(after);
    // another template with the same content has the same text
    expect(templateText(countedTemplate(14_000, true).template)).toBe(text);
  });

  it.each([
    ['a small one', 10, true],
    ['one that may change', 14_000, false],
  ])('of %s is computed each time', (_title, variables, isFrozen) => {
    const { template, reads } = countedTemplate(variables, isFrozen);
    templateText(template);
    const after = reads();
    templateText(template);
    expect(reads()).toBe(2 * after);
  });
});
