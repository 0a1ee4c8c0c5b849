import { describe, expect, it } from 'vitest';
import { compareRows, SortedRows, type KeyedRow } from '../../src/api/sorted-rows.ts';

interface TestRow extends KeyedRow {
  readonly version: number;
}
const row = (name: string, version = 0, namespace = 'default'): TestRow => ({ uid: `${namespace}/${name}`, name, namespace, version });

describe('sorted rows', () => {
  it('are the rows of all writes in order, whatever happened between two reads', () => {
    const rows = new SortedRows<TestRow>();
    const expected = new Map<string, TestRow>();
    // a sequence without randomness that adds, changes and deletes rows in many orders
    for (let step = 0; step < 3_000; step += 1) {
      const changed = row(`p${(step * 7919) % 97}`, step, step % 3 === 0 ? 'a' : 'b');
      if (step % 5 === 2) {
        rows.delete(changed.uid);
        expected.delete(changed.uid);
      } else {
        rows.set(changed);
        expected.set(changed.uid, changed);
      }
      if (step % 11 !== 0) continue;
      const before = rows.list;
      expect(before).toEqual([...expected.values()].sort(compareRows));
      expect(rows.list).toBe(before);
      expect(rows.size).toBe(expected.size);
    }
  });

  it('report what changed between two lists', () => {
    const rows = new SortedRows<TestRow>();
    rows.set(row('a'));
    rows.set(row('b'));
    const from = rows.list;
    rows.set(row('b', 1));
    rows.set(row('c', 1));
    rows.set(row('gone'));
    rows.delete('default/gone');
    rows.delete('default/a');
    const to = rows.list;
    expect(rows.lastChange).toEqual({ from, to, removed: new Set(from), added: [row('b', 1), row('c', 1)] });
  });

  it('keep nothing of rows that came and went while the list was not read, as in a hidden tab', () => {
    const rows = new SortedRows<TestRow>();
    rows.set(row('kept'));
    expect(rows.list).toHaveLength(1);
    for (let pod = 0; pod < 50_000; pod += 1) {
      rows.set(row(`pod-${pod}`));
      rows.set(row(`pod-${pod}`, 1));
      rows.delete(`default/pod-${pod}`);
    }
    const before = rows.list;
    expect(before).toHaveLength(1);
    expect(rows.lastChange?.to.length).toBe(1);
    rows.set(row('kept', 1));
    expect(rows.list).toEqual([row('kept', 1)]);
    expect(rows.lastChange).toMatchObject({ removed: new Set(before), added: [row('kept', 1)] });
  });

  it('are replaced by a new list', () => {
    const rows = new SortedRows<TestRow>();
    for (const name of ['a', 'b', 'c']) rows.set(row(name));
    expect(rows.list).toHaveLength(3);
    rows.replace(new Map([row('d'), row('b', 1)].map((each) => [each.uid, each])));
    expect(rows.list).toEqual([row('b', 1), row('d')]);
  });
});
