import fc from 'fast-check';
import { expect } from 'vitest';
import { bytewise, codeOf, bytes, showEntries, text, type StorageHarness, type Suite } from './harness.ts';
import { StorageModel } from './storage-model.ts';

/** A small alphabet, so that keys share prefixes: all lengths of UTF-8, and wildcards and sentinels of other stores. */
const piece = fc.constantFrom(
  '/',
  'a',
  'b',
  '_',
  '%',
  '*',
  '?',
  '[',
  '\\',
  "'",
  '"',
  '.',
  '-',
  '\u0000',
  '\u007f',
  '\u0080',
  'ÿ',
  'ü',
  'ࠀ',
  '\ud7ff',
  '\ue000',
  '\ufffd',
  '\uffff',
  '😀',
  '\u{10000}',
  '\u{10ffff}',
);
const keyText = fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join(''));
const someText = fc.array(piece, { maxLength: 3 }).map((pieces) => pieces.join(''));

const keysOf = async (harness: StorageHarness, prefix: string, after?: string): Promise<string[]> =>
  (await harness.driver.range({ prefix, ...(after !== undefined && { after }) })).entries.map((entry) => entry.key);

export function rangeContract({ test }: Suite): void {
  test('returns an empty page from an empty store', async ({ driver }) => {
    const page = await driver.range({ prefix: '' });
    expect(page).toEqual({ entries: [], revision: page.revision, more: false, remaining: 0 });
    expect(page.revision).toBeLessThanOrEqual(await driver.requestProgress());
  });

  test('returns pages in key order, and the number of remaining entries', async (harness) => {
    const last = await harness.fill(['/pods/b', '/pods/a', '/pods/c', '/nodes/n', '/pods/d', '/podsx']);
    const first = await harness.driver.range({ prefix: '/pods/', limit: 2 });
    expect(first).toMatchObject({ more: true, remaining: 2 });
    expect(first.revision).toBeGreaterThanOrEqual(last);
    expect(first.entries.map((entry) => entry.key)).toEqual(['/pods/a', '/pods/b']);
    const second = await harness.driver.range({ prefix: '/pods/', limit: 2, after: '/pods/b', revision: first.revision });
    expect(second).toMatchObject({ more: false, remaining: 0, revision: first.revision });
    expect(second.entries.map((entry) => entry.key)).toEqual(['/pods/c', '/pods/d']);
    expect(await harness.driver.range({ prefix: '/pods/', limit: 4 })).toMatchObject({ more: false, remaining: 0 });
    expect(await harness.driver.range({ prefix: '/pods/', limit: 0 })).toMatchObject({ entries: [], more: true, remaining: 4 });
    expect(await harness.driver.range({ prefix: '/none/', limit: 0 })).toMatchObject({ entries: [], more: false, remaining: 0 });
  });

  test('starts after a key, whether it exists or not', async (harness) => {
    await harness.fill(['/a', '/a\u0000', '/b', '/c']);
    expect(await keysOf(harness, '/', '/a')).toEqual(['/a\u0000', '/b', '/c']);
    expect(await keysOf(harness, '/', '/aa')).toEqual(['/b', '/c']);
    expect(await keysOf(harness, '/', '')).toEqual(['/a', '/a\u0000', '/b', '/c']);
    expect(await keysOf(harness, '/', '.')).toEqual(['/a', '/a\u0000', '/b', '/c']);
    expect(await keysOf(harness, '/', '/c')).toEqual([]);
    expect(await keysOf(harness, '/', '0')).toEqual([]);
    expect(await keysOf(harness, '/b', '/a')).toEqual(['/b']);
    expect(await keysOf(harness, '/b', '/b')).toEqual([]);
    expect(await harness.driver.range({ prefix: '/b', after: '/zzz', limit: 1 })).toMatchObject({ entries: [], more: false, remaining: 0 });
  });

  test('sorts keys by UTF-8 bytes, not by UTF-16 units', async (harness) => {
    // U+FF5E sorts before U+1F600 by code point and after it by UTF-16 unit
    const keys = ['/z', '/é', '/\ud7ff', '/\ue000', '/～', '/\uffff', '/😀', '/\u{10ffff}'];
    await harness.fill([...keys].reverse());
    expect(await keysOf(harness, '/')).toEqual(keys);
    expect(await keysOf(harness, '/', '/～')).toEqual(['/\uffff', '/😀', '/\u{10ffff}']);
    expect(await keysOf(harness, '/', '/😀')).toEqual(['/\u{10ffff}']);
    expect((await harness.pages({ prefix: '/', limit: 3 })).map((entry) => entry.key)).toEqual(keys);
  });

  test('takes a prefix literally', async (harness) => {
    const keys = [
      '/ns/a_b/x',
      '/ns/aXb/x',
      '/ns/a%',
      '/ns/a%b',
      '/ns/a*',
      '/ns/ab',
      '/ns/a?',
      '/ns/a.b',
      '/ns/a[b]',
      '/ns/a\\',
      '/NS/ab',
      '/ns/aÿ',
      '/ns/aÿÿ/x',
      '/ns/a\uffff',
      '/ns/a\uffffb',
      '/ns/a\u{10ffff}',
      '/ns/a\u{10ffff}z',
    ];
    await harness.fill(keys);
    for (const prefix of [
      '',
      '/',
      '/ns/a',
      '/ns/a_',
      '/ns/a%',
      '/ns/a*',
      '/ns/a?',
      '/ns/a.',
      '/ns/a[',
      '/ns/a\\',
      '/NS',
      '/ns/aÿ',
      '/ns/a\uffff',
      '/ns/a\u{10ffff}',
      '/ns/b',
    ]) {
      expect(await keysOf(harness, prefix)).toEqual(keys.filter((key) => key.startsWith(prefix)).sort(bytewise));
    }
  });

  test('agrees with a model for any keys, prefixes, pages and revisions', async (harness) => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ key: keyText, remove: fc.boolean() }), { minLength: 1, maxLength: 30 }),
        fc.array(
          fc.record({
            prefix: someText,
            after: fc.option(keyText, { nil: undefined }),
            limit: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
            at: fc.nat(),
          }),
          { minLength: 1, maxLength: 10 },
        ),
        async (writes, reads) => {
          const root = `/round-${round++}/`;
          const model = new StorageModel(await harness.driver.requestProgress());
          for (const { key, remove } of writes) {
            const write = { key: root + key, value: remove ? null : bytes(key) };
            model.apply([write], await harness.write([write]));
          }
          for (const { prefix, after, limit, at } of reads) {
            const revision = model.revisions[at % model.revisions.length]!;
            const page = await harness.driver.range({
              prefix: root + prefix,
              revision,
              ...(after !== undefined && { after: root + after }),
              ...(limit !== undefined && { limit }),
            });
            const all = model.range(root + prefix, revision, after === undefined ? undefined : root + after);
            expect(showEntries(page.entries)).toEqual(showEntries(all.slice(0, limit)));
            const remaining = all.length - page.entries.length;
            expect(page).toMatchObject({ revision, remaining, more: remaining > 0 });
            const key = root + (after ?? prefix);
            const got = await harness.driver.get(key, { revision });
            expect(got.revision).toBe(revision);
            expect(showEntries(got.entry ? [got.entry] : [])).toEqual(
              showEntries([model.at(revision).get(key)].filter((entry) => entry !== undefined)),
            );
          }
          const newest = await harness.driver.range({ prefix: root });
          expect(showEntries(newest.entries)).toEqual(showEntries(model.range(root, newest.revision)));
        },
      ),
      { numRuns: harness.runs },
    );
  });

  test('reads all pages at one revision during writes', async (harness) => {
    const keys = Array.from({ length: 300 }, (_, at) => `/pods/${String(at).padStart(4, '0')}`);
    await harness.fill(keys, () => 'before');
    let done = 0;
    const entries = await harness.pages({ prefix: '/pods/', limit: 20 }, async ({ remaining }) => {
      done += 20;
      expect(remaining).toBe(300 - done);
      const ahead = `/pods/${String(done + 5).padStart(4, '0')}`;
      await harness.write([
        { key: ahead, value: bytes('after') },
        { key: keys[done + 7]!, value: null },
        { key: `${ahead}x`, value: bytes('new') },
        { key: keys[done - 3]!, value: null },
      ]);
    });
    expect(entries.map((entry) => entry.key)).toEqual(keys);
    expect(new Set(entries.map((entry) => text(entry.value)))).toEqual(new Set(['before']));
    const now = await harness.driver.range({ prefix: '/pods/' });
    expect(now.entries).toHaveLength(300 - 14);
  });

  test('rejects future revisions', async (harness) => {
    await harness.put('/a', '1');
    const revision = (await harness.driver.requestProgress()) + 1_000_000;
    expect(await codeOf(harness.driver.get('/a', { revision }))).toBe('FutureRevision');
    expect(await codeOf(harness.driver.range({ prefix: '/', revision }))).toBe('FutureRevision');
  });
}
