import { expect, it } from 'vitest';
import { advanceBeyond, maxAdvance } from '../../src/backup/advance-revision.ts';

/** A storage that assigns its own revisions, as etcd does. */
function storageAt(revision: number) {
  const state = { revision, keys: new Set<string>(), compactions: [] as number[] };
  const driver = {
    requestProgress: async () => state.revision,
    commit: async ([write]: readonly { readonly key: string }[]) => {
      state.keys.add(write?.key ?? '');
      state.revision += 1;
      return { ok: true as const, revision: state.revision };
    },
    compact: async (at: number) => {
      state.compactions.push(at);
    },
  };
  return { state, driver };
}

it.each([0, 1, 127, 128, 1000])('makes the revision exceed one that is %i higher, with commits to one key', async (distance) => {
  const { state, driver } = storageAt(5);
  expect(await advanceBeyond(driver, 5 + distance, '/k')).toBe(true);
  expect(state).toMatchObject({ revision: 5 + distance + 1, keys: new Set(['/k']) });
});

it('does nothing if the revision is higher already, or too far away', async () => {
  const { state, driver } = storageAt(9);
  expect(await advanceBeyond(driver, 8, '/k')).toBe(true);
  expect(await advanceBeyond(driver, 9 + maxAdvance, '/k')).toBe(false);
  expect(state).toMatchObject({ revision: 9, compactions: [] });
});

it('deletes former revisions on the way, so that the storage does not grow', async () => {
  const { state, driver } = storageAt(1);
  await advanceBeyond(driver, 50_000, '/k');
  expect(state.compactions).toHaveLength(2);
});
