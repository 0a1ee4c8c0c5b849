import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { prepareSafeSubPath } from '../../src/volumes/sub-path.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-subpath-'));
  await mkdir(join(directory, 'volume', 'a', 'b'), { recursive: true });
  await mkdir(join(directory, 'outside', 'b'), { recursive: true });
  await writeFile(join(directory, 'outside', 'secret'), 's');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Replaces a directory of the volume by a link to a directory of the node, and back, until it is stopped, as a process in the pod does it. */
function swapDirectoryWithLink() {
  const [dir, aside, link] = ['a', '.dir', '.link'].map((name) => join(directory, 'volume', name)) as [string, string, string];
  let swapping = true;
  const ended = (async () => {
    await symlink('../outside', link);
    while (swapping) {
      await rename(dir, aside);
      // the kubelet creates a missing directory in between
      await rename(link, dir).catch(() => rm(dir, { recursive: true, force: true }).then(() => rename(link, dir)));
      await rename(dir, link);
      await rename(aside, dir).catch(() => rm(dir, { recursive: true, force: true }).then(() => rename(aside, dir)));
    }
  })();
  return {
    async stop() {
      swapping = false;
      await ended;
    },
  };
}

it('a sub-path is never outside of the volume while the pod replaces a directory with a link', async () => {
  const swaps = swapDirectoryWithLink();
  const outcomes = new Map<string, number>();
  for (let attempt = 0; attempt < 300; attempt++)
    for (const subPath of ['a/b', 'a/secret', `a/new-${attempt}`]) {
      const outcome = await prepareSafeSubPath({ volumePath: join(directory, 'volume'), subPath, target: undefined }).then(
        ({ hostPath }) => (hostPath.startsWith(join(directory, 'volume/')) ? 'inside' : hostPath),
        (error: unknown) => (error as { code?: string }).code ?? String(error),
      );
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  await swaps.stop();
  const harmless = ['inside', 'InvalidArgument', 'ENOENT', 'EEXIST', 'ENOTDIR'];
  expect([...outcomes.keys()].filter((outcome) => !harmless.includes(outcome))).toEqual([]);
  expect((await readdir(join(directory, 'outside'))).sort()).toEqual(['b', 'secret']);
});
