import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readSources, sourceChanges } from '../../../src/dev/source/source-changes.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-sources-'));
});
afterEach(() => rm(folder, { recursive: true }));

it('returns the files of the plugin that changed, with both texts', async () => {
  const at = (name: string) => join(folder, name);
  const [plugin, removed, added, same] = [at('plugin.ts'), at('removed.ts'), at('added.ts'), at('same.ts')];
  await Promise.all([writeFile(plugin, 'a'), writeFile(removed, 'r'), writeFile(same, 's')]);
  const files = [plugin, removed, added, same];
  const before = await readSources(files);
  await Promise.all([writeFile(plugin, 'b'), rm(removed), writeFile(added, 'n')]);
  expect(sourceChanges(before, await readSources(files))).toEqual([
    { file: relative('', plugin), before: 'a', after: 'b' },
    { file: relative('', removed), before: 'r', after: '' },
    { file: relative('', added), before: '', after: 'n' },
  ]);
});

it('leaves out files of packages and very large ones', async () => {
  await mkdir(join(folder, 'node_modules'));
  const files = ['node_modules/index.js', 'large.js', 'own.ts'].map((name) => join(folder, name));
  await Promise.all(files.map((file) => writeFile(file, file.endsWith('large.js') ? 'x'.repeat(300_000) : 'x')));
  expect([...(await readSources(files)).keys()]).toEqual([join(folder, 'own.ts')]);
});
