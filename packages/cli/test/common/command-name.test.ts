import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { commandName } from '../../src/common/command-name.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-command-'));
  await mkdir(join(folder, 'oarlock', 'bundle'), { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

it('is `npx oarlock` for a package of npm, and `oarlock` beside a Node of its own', async () => {
  const bundle = pathToFileURL(join(folder, 'oarlock', 'bundle', 'oarlock.cjs')).href;
  expect(commandName(bundle)).toBe('npx oarlock');
  await writeFile(join(folder, 'node'), '');
  expect(commandName(bundle)).toBe('oarlock');
});
