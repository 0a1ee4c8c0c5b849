import { describe, it } from 'vitest';
import type { SnapshotterKind } from '../../src/snapshotter.ts';
import { temporaryStore } from '../fixtures/temporary-store.ts';
import { snapshotterContract } from './snapshotter-contract.ts';

/** Returns why a snapshotter cannot be tested here; undefined if it can. */
async function missing(kind: SnapshotterKind): Promise<string | undefined> {
  // the mounts of the contract need the namespaces of this process
  if (kind !== 'copy' && process.geteuid?.() !== 0) return 'mounting needs root';
  try {
    await (await temporaryStore({ snapshotter: kind })).remove();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

for (const kind of ['copy', 'overlayfs', 'fuse-overlayfs'] as const) {
  const reason = await missing(kind);
  if (reason === undefined) snapshotterContract(kind);
  else describe.skip(`snapshotter ${kind}: ${reason}`, () => it('is not available', () => {}));
}
