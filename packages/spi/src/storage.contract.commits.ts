import { expect } from 'vitest';
import { bytes, codeOf, showEntries, text } from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';

/** 1.4 MiB: what an object of 1 MiB, the most that etcd's users count on, can grow to with its bookkeeping. */
const large = Math.floor(1.4 * 1024 * 1024);

const noise = (length: number): Uint8Array => {
  const value = Buffer.alloc(length);
  for (let at = 0, state = 1; at < length; at += 1) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    value[at] = state >> 16;
  }
  return value;
};

export function commitContract({ test }: Suite): void {
  test('writes, overwrites and deletes', async ({ driver }) => {
    const absent = await driver.get('/pods/a');
    expect(absent.entry).toBeUndefined();
    const first = await driver.commit([{ key: '/pods/a', value: bytes('1') }], [{ key: '/pods/a', revision: 0 }]);
    if (!first.ok) throw new Error('refused');
    expect(first.revision).toBeGreaterThan(absent.revision);
    const written = await driver.get('/pods/a');
    expect(showEntries([written.entry!])).toEqual([`"/pods/a" = "1" @${first.revision} of ${first.revision}`]);
    expect(written.revision).toBeGreaterThanOrEqual(first.revision);

    const second = await driver.commit([{ key: '/pods/a', value: bytes('2') }], [{ key: '/pods/a', revision: first.revision }]);
    if (!second.ok) throw new Error('refused');
    expect(showEntries([(await driver.get('/pods/a')).entry!])).toEqual([`"/pods/a" = "2" @${second.revision} of ${first.revision}`]);

    const third = await driver.commit([{ key: '/pods/a', value: null }], [{ key: '/pods/a', revision: second.revision }]);
    if (!third.ok) throw new Error('refused');
    expect(third.revision).toBeGreaterThan(second.revision);
    expect((await driver.get('/pods/a')).entry).toBeUndefined();

    const again = await driver.commit([{ key: '/pods/a', value: bytes('4') }], [{ key: '/pods/a', revision: 0 }]);
    if (!again.ok) throw new Error('refused');
    expect(showEntries([(await driver.get('/pods/a')).entry!])).toEqual([`"/pods/a" = "4" @${again.revision} of ${again.revision}`]);
  });

  test('writes nothing when an expectation does not hold, and says what stands there', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recording = bench.watch('', base);
    const first = await bench.put('/a', '1');
    const stale = await bench.driver.commit([{ key: '/a', value: bytes('x') }], [{ key: '/a', revision: 0 }]);
    expect(stale).toMatchObject({ ok: false, key: '/a', current: { key: '/a', revision: first, created: first } });
    expect(!stale.ok && stale.current && text(stale.current.value)).toBe('1');
    expect(await bench.driver.commit([{ key: '/b', value: bytes('x') }], [{ key: '/b', revision: first }])).toEqual({
      ok: false,
      key: '/b',
      current: undefined,
    });
    expect(await bench.driver.commit([{ key: '/b', value: null }], [{ key: '/b', revision: first }])).toEqual({
      ok: false,
      key: '/b',
      current: undefined,
    });
    const second = await bench.put('/a', '2');
    expect(await bench.driver.commit([{ key: '/a', value: null }], [{ key: '/a', revision: first }])).toMatchObject({
      ok: false,
      current: { revision: second },
    });
    await bench.delete('/a');
    expect(await bench.driver.commit([{ key: '/a', value: bytes('x') }], [{ key: '/a', revision: second }])).toEqual({
      ok: false,
      key: '/a',
      current: undefined,
    });
    const last = await bench.put('/c', '3');
    await recording.reached(last);
    expect(recording.changes).toHaveLength(4);
  });

  test('writes several keys at one revision, or none of them', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recording = bench.watch('', base);
    const one = await bench.write([
      { key: '/a', value: bytes('a1') },
      { key: '/b', value: bytes('b1') },
      { key: '/c', value: bytes('c1') },
    ]);
    const page = await bench.driver.range({ prefix: '' });
    expect(page.entries.map((entry) => [entry.key, entry.revision])).toEqual([
      ['/a', one],
      ['/b', one],
      ['/c', one],
    ]);
    const two = await bench.write(
      [
        { key: '/a', value: bytes('a2') },
        { key: '/b', value: null },
        { key: '/d', value: bytes('d2') },
      ],
      [
        { key: '/a', revision: one },
        { key: '/b', revision: one },
        { key: '/c', revision: one },
        { key: '/d', revision: 0 },
      ],
    );
    expect((await bench.driver.range({ prefix: '' })).entries.map((entry) => [entry.key, text(entry.value), entry.revision])).toEqual([
      ['/a', 'a2', two],
      ['/c', 'c1', one],
      ['/d', 'd2', two],
    ]);
    // `/b` is gone, so all of this must be refused, though the other expectations hold
    const refused = await bench.driver.commit(
      [
        { key: '/a', value: null },
        { key: '/e', value: bytes('e') },
      ],
      [
        { key: '/a', revision: two },
        { key: '/b', revision: one },
        { key: '/d', revision: two },
      ],
    );
    expect(refused).toEqual({ ok: false, key: '/b', current: undefined });
    const last = await bench.put('/z', 'z');
    await recording.reached(last);
    expect(recording.changes).toHaveLength(3 + 3 + 1);
  });

  test('reports the first expectation that does not hold, in the order they are given', async (bench) => {
    const one = await bench.write([
      { key: '/a', value: bytes('a') },
      { key: '/b', value: bytes('b') },
      { key: '/c', value: bytes('c') },
    ]);
    const good = { key: '/b', revision: one };
    const writes = [{ key: '/x', value: bytes('x') }];
    expect(await bench.driver.commit(writes, [good, { key: '/c', revision: 0 }, { key: '/a', revision: 0 }])).toMatchObject({
      ok: false,
      key: '/c',
    });
    expect(await bench.driver.commit(writes, [{ key: '/a', revision: 0 }, good, { key: '/c', revision: 0 }])).toMatchObject({
      ok: false,
      key: '/a',
    });
    expect(await bench.driver.commit(writes, [good, { key: '/x', revision: one }])).toEqual({ ok: false, key: '/x', current: undefined });
  });

  test('expects of keys that it does not write', async (bench) => {
    const guard = await bench.put('/guard', 'g');
    const { ok } = await bench.driver.commit(
      [{ key: '/a', value: bytes('1') }],
      [
        { key: '/guard', revision: guard },
        { key: '/never', revision: 0 },
      ],
    );
    expect(ok).toBe(true);
    await bench.put('/guard', 'h');
    expect(await bench.driver.commit([{ key: '/a', value: bytes('2') }], [{ key: '/guard', revision: guard }])).toMatchObject({
      ok: false,
      key: '/guard',
    });
    expect(text((await bench.driver.get('/a')).entry!.value)).toBe('1');
  });

  test('writes nothing for the delete of an absent key, and reports where that was decided', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recording = bench.watch('', base);
    const one = await bench.put('/a', '1');
    const nothing = await bench.delete('/absent');
    expect(nothing).toBeGreaterThanOrEqual(one);
    const checked = await bench.write(
      [],
      [
        { key: '/a', revision: one },
        { key: '/absent', revision: 0 },
      ],
    );
    expect(checked).toBeGreaterThanOrEqual(nothing);
    expect(await bench.driver.commit([], [{ key: '/a', revision: 0 }])).toMatchObject({ ok: false, key: '/a', current: { revision: one } });
    expect(await bench.write([])).toBeGreaterThanOrEqual(checked);
    const two = await bench.write([
      { key: '/absent', value: null },
      { key: '/b', value: bytes('2') },
    ]);
    expect(two).toBeGreaterThan(checked);
    await bench.delete('/b');
    await bench.delete('/b');
    await recording.reached(await bench.driver.requestProgress());
    expect(recording.changes.map((change) => change.type)).toEqual(['put', 'put', 'delete']);
  });

  test('takes any text as a key, and any bytes as a value', async (bench) => {
    const keys = [
      'x',
      '/',
      '//',
      '/a b',
      '/%2f',
      '/\u0000',
      '/a\u0000b',
      '/\n\t\\"\'`',
      '/ü',
      '/\u00ff',
      '/\uffff',
      '/\ud83d\ude00',
      '/\u{10ffff}',
      `/${'long'.repeat(512)}`,
    ];
    for (const key of keys) await bench.put(key, `value of ${key}`);
    for (const key of keys) {
      const { entry } = await bench.driver.get(key);
      expect([entry?.key, entry && text(entry.value)]).toEqual([key, `value of ${key}`]);
    }
    const values = [new Uint8Array(0), new Uint8Array([0]), Uint8Array.from({ length: 256 }, (_, at) => at)];
    for (const value of values) {
      await bench.put('/value', value);
      expect(Buffer.compare((await bench.driver.get('/value')).entry!.value, value)).toBe(0);
    }
    expect((await bench.driver.range({ prefix: '' })).entries).toHaveLength(keys.length + 1);
  });

  test('refuses text that is not Unicode, and one key twice in a commit', async (bench) => {
    for (const key of ['/\ud83d', '/\ude00\ud83d', '\ud800/a']) {
      await expect(bench.put(key, '1')).rejects.toBeInstanceOf(TypeError);
      await expect(bench.driver.get(key)).rejects.toBeInstanceOf(TypeError);
      await expect(bench.driver.range({ prefix: key })).rejects.toBeInstanceOf(TypeError);
    }
    await expect(
      bench.write([
        { key: '/a', value: bytes('1') },
        { key: '/a', value: null },
      ]),
    ).rejects.toBeInstanceOf(TypeError);
    expect((await bench.driver.range({ prefix: '' })).entries).toEqual([]);
  });

  test('keeps what was handed over as it was', async (bench) => {
    await bench.put('/a', 'first');
    const { entry } = await bench.driver.get('/a');
    await bench.put('/a', 'other');
    await bench.delete('/a');
    expect(text(entry!.value)).toBe('first');
  });

  test('takes large values, up to the size it states', async (bench) => {
    const { maxValueBytes } = bench.driver.traits;
    expect(maxValueBytes).toBeGreaterThanOrEqual(large);
    const recording = bench.watch('/', await bench.driver.requestProgress());
    for (const size of [large, maxValueBytes]) {
      const value = noise(size);
      const revision = await bench.put('/large', value);
      const { entry } = await bench.driver.get('/large');
      expect(entry?.revision).toBe(revision);
      expect(Buffer.compare(entry!.value, value)).toBe(0);
      await recording.reached(revision);
      const change = recording.changes.at(-1);
      expect(change?.type === 'put' && Buffer.compare(change.entry.value, value)).toBe(0);
    }
    const last = recording.changes.at(-1);
    expect(last?.type === 'put' && last.previous?.value.length).toBe(large);
    expect(await bench.driver.commit([], [{ key: '/large', revision: 0 }])).toMatchObject({
      ok: false,
      current: { revision: last?.type === 'put' ? last.entry.revision : 0 },
    });
  });

  test('refuses larger ones, and writes nothing then', async (bench) => {
    const tooLarge = noise(bench.driver.traits.maxValueBytes + 1);
    expect(await codeOf(bench.put('/large', tooLarge))).toBe('TooLarge');
    expect(
      await codeOf(
        bench.write([
          { key: '/small', value: bytes('1') },
          { key: '/large', value: tooLarge },
        ]),
      ),
    ).toBe('TooLarge');
    expect((await bench.driver.range({ prefix: '' })).entries).toEqual([]);
    await bench.put('/large', 'still works');
  });
}
