import { describe, expect, it } from 'vitest';
import { findCondition, isConditionTrue, nextCondition, removeCondition, setCondition, type ConditionUpdate } from '../src/conditions.ts';

const at = (seconds: number) => Date.UTC(2026, 0, 1, 0, 0, seconds);
const update = (status: ConditionUpdate['status'], more: Partial<ConditionUpdate> = {}): ConditionUpdate => ({
  type: 'Ready',
  status,
  reason: 'Because',
  message: '',
  ...more,
});

describe('setCondition', () => {
  const first = setCondition(undefined, update('False'), at(1));

  it('adds a condition with the current time, or the given one', () => {
    expect(first).toEqual([{ ...update('False'), lastTransitionTime: '2026-01-01T00:00:01Z' }]);
    const withTime = update('True', { lastTransitionTime: '2025-01-01T00:00:00Z' });
    expect(setCondition([], withTime, at(1))).toEqual([withTime]);
  });

  it('changes lastTransitionTime with the status only', () => {
    const [same] = setCondition(first, update('False', { reason: 'Other', observedGeneration: 2 }), at(5));
    expect(same).toMatchObject({ reason: 'Other', observedGeneration: 2, lastTransitionTime: '2026-01-01T00:00:01Z' });
    const [changed] = setCondition(first, update('True'), at(5));
    expect(changed).toMatchObject({ status: 'True', lastTransitionTime: '2026-01-01T00:00:05Z' });
  });

  it('returns the same list if nothing changes, and keeps other conditions', () => {
    expect(setCondition(first, update('False'), at(9))).toBe(first);
    const two = setCondition(first, update('True', { type: 'Synced' }), at(2));
    expect(two.map(({ type }) => type)).toEqual(['Ready', 'Synced']);
    expect(removeCondition(two, 'Ready').map(({ type }) => type)).toEqual(['Synced']);
    expect([isConditionTrue(two, 'Synced'), isConditionTrue(two, 'Ready'), isConditionTrue(undefined, 'Ready')]).toEqual([
      true,
      false,
      false,
    ]);
    expect(findCondition(two, 'Synced')?.reason).toBe('Because');
  });
});

it('nextCondition ignores a given transition time if the status stays', () => {
  const previous = nextCondition(undefined, update('True'), at(1));
  expect(nextCondition(previous, update('True', { lastTransitionTime: '2030-01-01T00:00:00Z' }), at(2)).lastTransitionTime).toBe(
    '2026-01-01T00:00:01Z',
  );
});
