import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SnapshotterKind } from '../../src/snapshotter.ts';
import { temporaryStore } from '../fixtures/temporary-store.ts';

/** Returns why a snapshotter cannot be chosen here; undefined if it can. */
async function missing(kind: SnapshotterKind): Promise<string | undefined> {
  try {
    await (await temporaryStore({ snapshotter: kind })).remove();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
const [overlay, fuse] = [await missing('overlayfs'), await missing('fuse-overlayfs')];

describe('the snapshotter `auto`', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-programs-'));
    vi.stubEnv('PATH', `${directory}:${process.env['PATH']}`);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(directory, { recursive: true });
  });
  /** Makes a program fail, as on a machine whose kernel denies its mount. */
  const deny = async (name: string) => {
    const path = join(directory, name);
    await writeFile(path, '#!/bin/sh\necho denied by the test >&2\nexit 32\n');
    await chmod(path, 0o755);
  };
  const chosen = async (fuse = true) => {
    const store = await temporaryStore({ snapshotter: 'auto', fuse });
    try {
      return { kind: store.snapshots.kind, notes: store.snapshotterNotes };
    } finally {
      await store.remove();
    }
  };
  const reason = (kind: SnapshotterKind) =>
    expect.stringMatching(new RegExp(`^The snapshotter ${kind} does not work .*denied by the test`, 's'));

  it.skipIf(overlay !== undefined)('is overlayfs where the kernel mounts it', async () => {
    expect(await chosen()).toEqual({ kind: 'overlayfs', notes: [] });
  });
  it.skipIf(overlay !== undefined || fuse !== undefined)('is fuse-overlayfs where the kernel denies overlayfs', async () => {
    await deny('mount');
    expect(await chosen()).toEqual({ kind: 'fuse-overlayfs', notes: [reason('overlayfs')] });
  });
  it.skipIf(overlay !== undefined)('is copy, never fuse-overlayfs, where containers mount their root directories', async () => {
    await deny('mount');
    const unused = expect.stringMatching(/^The snapshotter fuse-overlayfs is not used: /);
    expect(await chosen(false)).toEqual({ kind: 'copy', notes: [reason('overlayfs'), unused] });
    await expect(temporaryStore({ snapshotter: 'fuse-overlayfs', fuse: false })).rejects.toMatchObject({ code: 'FailedPrecondition' });
  });
  it.skipIf(overlay !== undefined)('is copy where both are denied, and reports why', async () => {
    await deny('mount');
    await deny('fuse-overlayfs');
    expect(await chosen()).toEqual({ kind: 'copy', notes: [reason('overlayfs'), reason('fuse-overlayfs')] });
  });
});
