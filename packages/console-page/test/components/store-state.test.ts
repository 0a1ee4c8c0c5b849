import { describe, expect, it } from 'vitest';
import { absenceText, stateOfAll, type StoreState } from '../../src/components/store-state.ts';

const live: StoreState = { state: 'live', reason: '', hasSynced: true };
const loading: StoreState = { state: 'connecting', reason: '', hasSynced: false };
const lost: StoreState = { state: 'reconnecting', reason: 'offline', hasSynced: true };
const denied: StoreState = { state: 'stopped', reason: 'ada cannot list', hasSynced: false };
/** A permission that ended while objects were shown. */
const revoked: StoreState = { ...denied, hasSynced: true };

describe('what a view shows in place of objects', () => {
  it.each([
    ['that there are none, after all lists', [live, lost, revoked], 'none'],
    ['that they load', [live, loading], 'Loading'],
    ['that they load, while the connection is lost before the first list', [{ ...lost, hasSynced: false }], 'Loading'],
    ['that they may not be read, also while others load', [loading, denied], 'Not available'],
  ])('%s', (_, stores, expected) => {
    expect(absenceText(stores, 'none')).toBe(expected);
  });
});

it.each([
  ['a denied list', [live, lost, denied], denied],
  ['a lost connection', [live, loading, lost], lost],
  ['a store that loads', [live, loading], loading],
  ['the first of several', [live, { ...live }], live],
] as const)('the state of several stores is that of %s', (_, stores, expected) => {
  expect(stateOfAll(stores)).toBe(expected);
});
