import { describe, expect, it } from 'vitest';
import { controllerRef, isControlledBy } from '../src/object.ts';

describe('isControlledBy', () => {
  const owner = { metadata: { name: 'a', uid: '1' } };
  const owned = (uid: string, controller: boolean) => ({ metadata: { ownerReferences: [{ ...controllerRef(owner), uid, controller }] } });

  it('requires the controller reference to have the uid of the owner', () => {
    expect(isControlledBy(owned('1', true), owner)).toBe(true);
    expect(isControlledBy(owned('2', true), owner)).toBe(false);
  });
  it('ignores owner references that are not the controller', () => {
    expect(isControlledBy(owned('1', false), owner)).toBe(false);
  });
  it('does not take two absent uids for equal', () => {
    expect(isControlledBy({}, {})).toBe(false);
    expect(isControlledBy(owned('1', true), {})).toBe(false);
  });
});
