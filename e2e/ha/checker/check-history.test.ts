import { describe, expect, it } from 'vitest';
import { seeded } from '../../harness/random.ts';
import { checkHistory } from './check-history.ts';
import type { History, Operation, OperationInput, OperationOutput, WatchRecord } from './history.ts';
import { checkLinearizability } from './linearizability.ts';

const op = (
  [calledAt, returnedAt]: readonly [number, number],
  input: OperationInput,
  output: OperationOutput = { result: 'unknown' },
  key = 'a',
): Operation => ({ client: 0, key, calledAt, returnedAt, input, output });
const ok = (revision?: number, value?: string): OperationOutput => ({
  result: 'ok',
  ...(revision !== undefined && { revision }),
  ...(value !== undefined && { value }),
});
const create = (value: string): OperationInput => ({ verb: 'create', value });
const update = (value: string, ifRevision: number): OperationInput => ({ verb: 'update', value, ifRevision });
const get: OperationInput = { verb: 'get' };
const isLinearizable = (...operations: readonly Operation[]) => checkLinearizability(operations).length === 0;

describe('linearizability', () => {
  it('accepts sequential writes and reads', () => {
    expect(
      isLinearizable(
        op([0, 1], create('x'), ok(5)),
        op([2, 3], get, ok(5, 'x')),
        op([4, 5], update('y', 5), ok(7)),
        op([6, 7], update('z', 5), { result: 'conflict' }),
        op([8, 9], { verb: 'delete', ifRevision: 7 }, ok()),
        op([10, 11], get, { result: 'not-found' }),
        op([12, 13], create('w'), ok(12)),
      ),
    ).toBe(true);
  });

  it('accepts a read of either state during a write', () => {
    const write = op([10, 20], update('y', 1), ok(2));
    const before = op([0, 1], create('x'), ok(1));
    expect(isLinearizable(before, write, op([11, 12], get, ok(2, 'y')))).toBe(true);
    expect(isLinearizable(before, write, op([11, 12], get, ok(1, 'x')))).toBe(true);
    expect(isLinearizable(before, write, op([11, 12], get, ok(2, 'y')), op([13, 14], get, ok(1, 'x')))).toBe(false);
  });

  it('finds a stale read', () => {
    expect(isLinearizable(op([0, 1], create('x'), ok(1)), op([2, 3], update('y', 1), ok(2)), op([4, 5], get, ok(1, 'x')))).toBe(false);
  });

  it('finds a lost write', () => {
    expect(isLinearizable(op([0, 1], create('x'), ok(1)), op([2, 3], get, { result: 'not-found' }))).toBe(false);
  });

  it('finds two updates from one resourceVersion', () => {
    expect(isLinearizable(op([0, 1], create('x'), ok(1)), op([2, 9], update('y', 1), ok(2)), op([2, 9], update('z', 1), ok(3)))).toBe(
      false,
    );
  });

  it('finds an object that is created twice', () => {
    expect(isLinearizable(op([0, 5], create('x'), ok(1)), op([0, 5], create('y'), ok(2)))).toBe(false);
  });

  it('finds a rejected write that took effect', () => {
    expect(
      isLinearizable(op([0, 1], create('x'), ok(1)), op([2, 3], update('y', 1), { result: 'conflict' }), op([4, 5], get, ok(2, 'y'))),
    ).toBe(false);
  });

  it('accepts both outcomes of a delete without an answer, at any later time', () => {
    const writes = [op([0, 1], create('x'), ok(1)), op([2, Number.POSITIVE_INFINITY], { verb: 'delete', ifRevision: 1 })];
    expect(isLinearizable(...writes, op([10, 11], get, ok(1, 'x')), op([12, 13], get, { result: 'not-found' }))).toBe(true);
    expect(isLinearizable(...writes, op([10, 11], get, ok(1, 'x')))).toBe(true);
    expect(isLinearizable(...writes, op([10, 11], get, { result: 'not-found' }), op([12, 13], get, ok(1, 'x')))).toBe(false);
  });

  it('agrees with a simulation of concurrent clients, and finds each planted stale read', () => {
    for (let round = 0; round < 50; round += 1) {
      const { operations, stale } = simulate(seeded(round), 120);
      expect(isLinearizable(...operations)).toBe(true);
      if (stale !== undefined) expect(isLinearizable(...operations, stale)).toBe(false);
    }
  });
});

/** Runs random operations of five clients on one object; each takes effect at a random time between call and return. */
function simulate(
  random: () => number,
  count: number,
): { readonly operations: readonly Operation[]; readonly stale: Operation | undefined } {
  const plans = Array.from({ length: count }, (_, index) => {
    const effect = index + random();
    return { effect, calledAt: effect - random() * 4, returnedAt: effect + random() * 4 };
  }).sort((a, b) => a.effect - b.effect);
  let state: { revision: number; value: string } | undefined;
  let old: { revision: number; value: string; until: number } | undefined;
  let revision = 0;
  const operations = plans.map(({ effect, calledAt, returnedAt }, index): Operation => {
    revision += 1;
    const before = state;
    const choice = random();
    if (choice < 0.4 || (before === undefined && choice < 0.6))
      return op([calledAt, returnedAt], get, before === undefined ? { result: 'not-found' } : ok(before.revision, before.value));
    if (before === undefined) {
      state = { revision, value: `v${index}` };
      return op([calledAt, returnedAt], create(state.value), ok(revision));
    }
    if (choice < 0.7) return op([calledAt, returnedAt], update(`v${index}`, before.revision - 1), { result: 'conflict' });
    old = { ...before, until: effect + 4 };
    if (choice < 0.8) {
      state = undefined;
      return op([calledAt, returnedAt], { verb: 'delete', ifRevision: before.revision }, ok());
    }
    state = { revision, value: `v${index}` };
    return op([calledAt, returnedAt], update(state.value, before.revision), ok(revision));
  });
  const end = count + 10;
  return { operations, stale: old === undefined ? undefined : op([end, end + 1], get, ok(old.revision, old.value)) };
}

const event = (revision: number, value: string, type: 'ADDED' | 'MODIFIED' | 'DELETED' = 'MODIFIED', key = 'a'): WatchRecord => ({
  type,
  key,
  revision,
  value,
});
const request = (revision: number): WatchRecord => ({ type: 'request', revision });
const bookmark = (revision: number): WatchRecord => ({ type: 'BOOKMARK', revision });
const all = [request(0), event(1, 'x', 'ADDED'), event(2, 'y'), event(3, 'z')];
const violationsOf = (records: readonly WatchRecord[], more: Partial<History> = {}) =>
  checkHistory({
    operations: [],
    lists: [],
    watches: [
      { watcher: 'full', records: all },
      { watcher: 'w', records },
    ],
    ...more,
  }).violations;

describe('watch guarantees', () => {
  it('accept a watch that ends early, resumes and has bookmarks', () => {
    expect(
      violationsOf([request(0), event(1, 'x', 'ADDED'), request(1), event(2, 'y'), bookmark(2), request(2), event(3, 'z'), bookmark(9)]),
    ).toEqual([]);
  });
  it.each<readonly [string, readonly WatchRecord[], string]>([
    ['a missing event', [request(0), event(1, 'x', 'ADDED'), event(3, 'z')], 'w: the event at 2 is missing'],
    [
      'an event that a resumed watch skips',
      [request(0), event(1, 'x', 'ADDED'), request(1), event(3, 'z')],
      'w: the event at 2 is missing',
    ],
    ['a wrong order', [request(1), event(3, 'z'), event(2, 'y')], 'w: the event of a at 2 came after revision 3'],
    ['a repeated event', [request(1), event(2, 'y'), event(2, 'y')], 'w: the event of a at 2 came twice'],
    ['an event that a resumed watch repeats', [request(1), event(2, 'y'), request(2), event(2, 'y')], 'w: the event of a at 2 came twice'],
    ['an event before the requested revision', [request(2), event(1, 'x', 'ADDED')], 'w: the event of a at 1 came after revision 2'],
    ['another content', [request(1), event(2, 'other')], 'w: the event at 2 is MODIFIED a other, another watcher received MODIFIED a y'],
    ['a bookmark before its events', [request(0), event(1, 'x', 'ADDED'), bookmark(2)], 'w: the event at 2 is missing'],
    ['a bookmark that goes back', [request(1), event(2, 'y'), bookmark(1)], 'w: the bookmark 1 came after revision 2'],
  ])('find %s', (_, records, violation) => {
    expect(violationsOf(records)).toContain(violation);
  });
});

describe('lists', () => {
  const list = (revision: number, items: readonly (readonly [string, number, string])[], calledAt = 0) => ({
    calledAt,
    revision,
    items: new Map(items.map(([key, at, value]) => [key, { revision: at, value }])),
  });
  it('are the state at their revision', () => {
    expect(violationsOf(all, { lists: [list(2, [['a', 2, 'y']]), list(0, [])] })).toEqual([]);
    expect(violationsOf(all, { lists: [list(2, [['a', 1, 'x']])] })).toEqual(['the list at 2 has a x instead of y']);
    expect(violationsOf(all, { lists: [list(3, [])] })).toEqual(['the list at 3 has a absent instead of z']);
  });
  it('are not older than a write that was acknowledged before', () => {
    const operations = [op([0, 1], create('x'), ok(1)), op([2, 3], update('y', 1), ok(2))];
    expect(violationsOf(all, { operations, lists: [list(1, [['a', 1, 'x']], 10)] })).toEqual([
      'the list at 1 is older than the update of a, which was acknowledged before its call',
    ]);
  });
});

describe('writes before a restart of the only server, after which every watcher lists again', () => {
  const unanswered = Number.POSITIVE_INFINITY;
  const watches = [{ watcher: 'w', records: [request(0), event(1, 'x', 'ADDED'), request(9)] }];
  const lists = [{ calledAt: 10, revision: 9, items: new Map([['a', { revision: 2, value: 'y' }]]) }];
  const created = op([0, 1], create('x'), ok(1));
  const check = (operations: readonly Operation[], listed = lists) =>
    checkHistory({ operations: [created, ...operations], lists: listed, watches });

  it('took effect if a list has their value', () => {
    expect(check([op([2, unanswered], update('y', 1)), op([11, 12], { verb: 'delete', ifRevision: 2 }, ok())])).toMatchObject({
      lost: [],
      violations: [],
    });
  });
  it('are not lost if a later write replaced them', () => {
    const replaced = [op([2, 3], update('w', 1), ok(4)), op([4, 5], update('y', 4), ok(5))];
    const listed = [{ calledAt: 10, revision: 9, items: new Map([['a', { revision: 5, value: 'y' }]]) }];
    expect(check(replaced, listed)).toMatchObject({ lost: [], violations: [] });
    expect(check(replaced.slice(0, 1), [])).toMatchObject({ lost: ['update of a to w at 4 is lost'] });
  });
  it('may be deletes whose event no watcher received', () => {
    const listed = [{ calledAt: 10, revision: 9, items: new Map() }];
    expect(check([op([2, unanswered], { verb: 'delete', ifRevision: 1 })], listed).violations).toEqual([]);
    expect(check([op([2, 3], { verb: 'delete', ifRevision: 1 }, { result: 'conflict' })], listed).violations).toContain(
      'the list at 9 has a absent instead of x',
    );
  });
  it('are not proven by a value that no client wrote or by another revision than acknowledged', () => {
    expect(check([]).violations).toEqual(['the list at 9 has a y instead of x']);
    expect(check([op([2, 3], update('y', 1), ok(3))])).toMatchObject({ lost: ['update of a to y at 3 is lost'] });
  });
});

describe('acknowledged writes', () => {
  const watches = [{ watcher: 'full', records: all }];
  it('are lost if no watcher received them', () => {
    const operations = [op([0, 1], create('x'), ok(1)), op([2, 3], create('q'), ok(8), 'b')];
    expect(checkHistory({ operations, lists: [], watches })).toMatchObject({
      acknowledgedWrites: 2,
      lost: ['create of b to q at 8 is lost'],
    });
  });
  it('include those without an answer whose value a watcher received', () => {
    const operations = [op([0, 1], create('x'), ok(1)), op([2, Number.POSITIVE_INFINITY], update('y', 1)), op([4, 5], get, ok(2, 'y'))];
    expect(checkHistory({ operations, lists: [], watches })).toMatchObject({
      acknowledgedWrites: 1,
      unansweredWrites: 1,
      violations: [],
      lost: [],
    });
  });
});
