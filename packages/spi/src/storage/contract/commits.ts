import { expect } from 'vitest';
import { bytes, codeOf, showEntries, text, type Suite } from './harness.ts';

/** 1.4 MiB: the size that an object of 1 MiB, etcd's usual limit, can reach with its metadata. */
const large = Math.floor(1.4 * 1024 * 1024);

const noise = (length: number): Uint8Array => {
  const value = Buffer.alloc(length);
  for (let at = 0, state = 1; at < length; at += 1) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    value[at] = state >> 16;
  }
  return value;
};

export function commitContract({ test, testUnless }: Suite): void {
  test('writes, overwrites and deletes', async ({ driver }) => {
    const absent = await driver.get('/pods/a');
    expect(absent.entry).toBeUndefined();
    const first = await driver.commit([{ key: '/pods/a', value: bytes('1') }], [{ key: '/pods/a', revision: 0 }]);
    if (!first.ok) throw new Error('rejected');
    expect(first.revision).toBeGreaterThan(absent.revision);
    const read = await driver.get('/pods/a');
    expect(showEntries([read.entry!])).toEqual([`"/pods/a" = "1" @${first.revision} of ${first.revision}`]);
    expect(read.revision).toBeGreaterThanOrEqual(first.revision);

    const second = await driver.commit([{ key: '/pods/a', value: bytes('2') }], [{ key: '/pods/a', revision: first.revision }]);
    if (!second.ok) throw new Error('rejected');
    expect(showEntries([(await driver.get('/pods/a')).entry!])).toEqual([`"/pods/a" = "2" @${second.revision} of ${first.revision}`]);

    const third = await driver.commit([{ key: '/pods/a', value: null }], [{ key: '/pods/a', revision: second.revision }]);
    if (!third.ok) throw new Error('rejected');
    expect(third.revision).toBeGreaterThan(second.revision);
    expect((await driver.get('/pods/a')).entry).toBeUndefined();

    const again = await driver.commit([{ key: '/pods/a', value: bytes('4') }], [{ key: '/pods/a', revision: 0 }]);
    if (!again.ok) throw new Error('rejected');
    expect(showEntries([(await driver.get('/pods/a')).entry!])).toEqual([`"/pods/a" = "4" @${again.revision} of ${again.revision}`]);
  });

  testUnless(
    ({ driver }) => (driver.currentRevision === undefined ? 'another process has the store' : undefined),
    'knows the revision of every acknowledged commit at once',
    async (harness) => {
      const { driver } = harness;
      expect(driver.currentRevision?.()).toBe(await driver.requestProgress());
      for (let at = 0; at < 5; at += 1) {
        const revision = await harness.put('/a', `${at}`);
        expect(driver.currentRevision?.()).toBe(revision);
      }
      const revision = await harness.delete('/a');
      expect(driver.currentRevision?.()).toBe(revision);
      expect(await driver.requestProgress()).toBe(revision);
    },
  );

  test('writes nothing if a precondition fails, and returns the current entry', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recording = harness.watch('', base);
    const first = await harness.put('/a', '1');
    const stale = await harness.driver.commit([{ key: '/a', value: bytes('x') }], [{ key: '/a', revision: 0 }]);
    expect(stale).toMatchObject({ ok: false, key: '/a', current: { key: '/a', revision: first, created: first } });
    expect(!stale.ok && stale.current && text(stale.current.value)).toBe('1');
    expect(await harness.driver.commit([{ key: '/b', value: bytes('x') }], [{ key: '/b', revision: first }])).toEqual({
      ok: false,
      key: '/b',
      current: undefined,
    });
    expect(await harness.driver.commit([{ key: '/b', value: null }], [{ key: '/b', revision: first }])).toEqual({
      ok: false,
      key: '/b',
      current: undefined,
    });
    const second = await harness.put('/a', '2');
    expect(await harness.driver.commit([{ key: '/a', value: null }], [{ key: '/a', revision: first }])).toMatchObject({
      ok: false,
      current: { revision: second },
    });
    await harness.delete('/a');
    expect(await harness.driver.commit([{ key: '/a', value: bytes('x') }], [{ key: '/a', revision: second }])).toEqual({
      ok: false,
      key: '/a',
      current: undefined,
    });
    const last = await harness.put('/c', '3');
    await recording.waitForRevision(last);
    expect(recording.changes).toHaveLength(4);
  });

  test('writes several keys at one revision, or none', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recording = harness.watch('', base);
    const one = await harness.write([
      { key: '/a', value: bytes('a1') },
      { key: '/b', value: bytes('b1') },
      { key: '/c', value: bytes('c1') },
    ]);
    const page = await harness.driver.range({ prefix: '' });
    expect(page.entries.map((entry) => [entry.key, entry.revision])).toEqual([
      ['/a', one],
      ['/b', one],
      ['/c', one],
    ]);
    const two = await harness.write(
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
    expect((await harness.driver.range({ prefix: '' })).entries.map((entry) => [entry.key, text(entry.value), entry.revision])).toEqual([
      ['/a', 'a2', two],
      ['/c', 'c1', one],
      ['/d', 'd2', two],
    ]);
    // `/b` does not exist any more, so the whole commit must be rejected although the other preconditions hold
    const rejected = await harness.driver.commit(
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
    expect(rejected).toEqual({ ok: false, key: '/b', current: undefined });
    const last = await harness.put('/z', 'z');
    await recording.waitForRevision(last);
    expect(recording.changes).toHaveLength(3 + 3 + 1);
  });

  test('reports the first failed precondition, in their order', async (harness) => {
    const one = await harness.write([
      { key: '/a', value: bytes('a') },
      { key: '/b', value: bytes('b') },
      { key: '/c', value: bytes('c') },
    ]);
    const good = { key: '/b', revision: one };
    const writes = [{ key: '/x', value: bytes('x') }];
    expect(await harness.driver.commit(writes, [good, { key: '/c', revision: 0 }, { key: '/a', revision: 0 }])).toMatchObject({
      ok: false,
      key: '/c',
    });
    expect(await harness.driver.commit(writes, [{ key: '/a', revision: 0 }, good, { key: '/c', revision: 0 }])).toMatchObject({
      ok: false,
      key: '/a',
    });
    expect(await harness.driver.commit(writes, [good, { key: '/x', revision: one }])).toEqual({ ok: false, key: '/x', current: undefined });
  });

  test('checks preconditions of keys that it does not write', async (harness) => {
    const guard = await harness.put('/guard', 'g');
    const { ok } = await harness.driver.commit(
      [{ key: '/a', value: bytes('1') }],
      [
        { key: '/guard', revision: guard },
        { key: '/never', revision: 0 },
      ],
    );
    expect(ok).toBe(true);
    await harness.put('/guard', 'h');
    expect(await harness.driver.commit([{ key: '/a', value: bytes('2') }], [{ key: '/guard', revision: guard }])).toMatchObject({
      ok: false,
      key: '/guard',
    });
    expect(text((await harness.driver.get('/a')).entry!.value)).toBe('1');
  });

  test('writes nothing for the deletion of an absent key, and returns the revision of the check', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recording = harness.watch('', base);
    const one = await harness.put('/a', '1');
    const nothing = await harness.delete('/absent');
    expect(nothing).toBeGreaterThanOrEqual(one);
    const checked = await harness.write(
      [],
      [
        { key: '/a', revision: one },
        { key: '/absent', revision: 0 },
      ],
    );
    expect(checked).toBeGreaterThanOrEqual(nothing);
    expect(await harness.driver.commit([], [{ key: '/a', revision: 0 }])).toMatchObject({
      ok: false,
      key: '/a',
      current: { revision: one },
    });
    expect(await harness.write([])).toBeGreaterThanOrEqual(checked);
    const two = await harness.write([
      { key: '/absent', value: null },
      { key: '/b', value: bytes('2') },
    ]);
    expect(two).toBeGreaterThan(checked);
    await harness.delete('/b');
    await harness.delete('/b');
    await recording.waitForRevision(await harness.driver.requestProgress());
    expect(recording.changes.map((change) => change.type)).toEqual(['put', 'put', 'delete']);
  });

  test('accepts any Unicode text as key and any bytes as value', async (harness) => {
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
    for (const key of keys) await harness.put(key, `value of ${key}`);
    for (const key of keys) {
      const { entry } = await harness.driver.get(key);
      expect([entry?.key, entry && text(entry.value)]).toEqual([key, `value of ${key}`]);
    }
    const values = [new Uint8Array(0), new Uint8Array([0]), Uint8Array.from({ length: 256 }, (_, at) => at)];
    for (const value of values) {
      await harness.put('/value', value);
      expect(Buffer.compare((await harness.driver.get('/value')).entry!.value, value)).toBe(0);
    }
    expect((await harness.driver.range({ prefix: '' })).entries).toHaveLength(keys.length + 1);
  });

  test('rejects text that is not Unicode, and duplicate keys in a commit', async (harness) => {
    for (const key of ['/\ud83d', '/\ude00\ud83d', '\ud800/a']) {
      await expect(harness.put(key, '1')).rejects.toBeInstanceOf(TypeError);
      await expect(harness.driver.get(key)).rejects.toBeInstanceOf(TypeError);
      await expect(harness.driver.range({ prefix: key })).rejects.toBeInstanceOf(TypeError);
    }
    await expect(
      harness.write([
        { key: '/a', value: bytes('1') },
        { key: '/a', value: null },
      ]),
    ).rejects.toBeInstanceOf(TypeError);
    expect((await harness.driver.range({ prefix: '' })).entries).toEqual([]);
  });

  test('does not change values after it returned them', async (harness) => {
    await harness.put('/a', 'first');
    const { entry } = await harness.driver.get('/a');
    await harness.put('/a', 'other');
    await harness.delete('/a');
    expect(text(entry!.value)).toBe('first');
  });

  test('accepts values up to maxValueBytes', async (harness) => {
    const { maxValueBytes } = harness.driver.traits;
    expect(maxValueBytes).toBeGreaterThanOrEqual(large);
    const recording = harness.watch('/', await harness.driver.requestProgress());
    for (const size of [large, maxValueBytes]) {
      const value = noise(size);
      const revision = await harness.put('/large', value);
      const { entry } = await harness.driver.get('/large');
      expect(entry?.revision).toBe(revision);
      expect(Buffer.compare(entry!.value, value)).toBe(0);
      await recording.waitForRevision(revision);
      const change = recording.changes.at(-1);
      expect(change?.type === 'put' && Buffer.compare(change.entry.value, value)).toBe(0);
    }
    const last = recording.changes.at(-1);
    expect(last?.type === 'put' && last.previous?.value.length).toBe(large);
    expect(await harness.driver.commit([], [{ key: '/large', revision: 0 }])).toMatchObject({
      ok: false,
      current: { revision: last?.type === 'put' ? last.entry.revision : 0 },
    });
  });

  test('rejects larger values, and writes nothing', async (harness) => {
    const tooLarge = noise(harness.driver.traits.maxValueBytes + 1);
    expect(await codeOf(harness.put('/large', tooLarge))).toBe('TooLarge');
    expect(
      await codeOf(
        harness.write([
          { key: '/small', value: bytes('1') },
          { key: '/large', value: tooLarge },
        ]),
      ),
    ).toBe('TooLarge');
    expect((await harness.driver.range({ prefix: '' })).entries).toEqual([]);
    await harness.put('/large', 'still works');
  });
}
