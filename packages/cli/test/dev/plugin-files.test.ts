import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { pluginFiles } from '../../src/dev/plugin-files.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-folder-'));
});
afterEach(() => rm(folder, { recursive: true }));

const save = async (name: string, text: string) => {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), text);
};
const plugin = (id: string) => `
import { Admission } from '@oarlock/spi/admission';
import { z } from 'zod';
export default Admission.plugin({ id: '${id}', config: z.strictObject({}), create: () => ({ matches: [] }) });
`;

it('finds the plugin of a package by its exports or its usual path', async () => {
  await save('package.json', '{ "exports": { "./plugin": "./lib/main.ts" } }');
  await save('lib/main.ts', '');
  await save('src/plugin.ts', '');
  expect(await pluginFiles([folder, './other.ts'])).toEqual([join(folder, 'lib/main.ts'), './other.ts']);
  await save('package.json', '{}');
  expect(await pluginFiles([folder])).toEqual([join(folder, 'src/plugin.ts')]);
  await save('package.json', '{');
  await expect(pluginFiles([folder])).rejects.toThrow('package.json is not JSON');
});

it('finds the plugins among the files and packages of a folder', async () => {
  await save('b.ts', plugin('admission-b'));
  await save('shared.ts', 'export const shared = 1;');
  await save('b.test.ts', plugin('admission-test'));
  await save('a/src/plugin.ts', plugin('admission-a'));
  await save('node_modules/x/plugin.ts', plugin('admission-x'));
  expect(await pluginFiles([folder])).toEqual([join(folder, 'a/src/plugin.ts'), join(folder, 'b.ts')]);
});

it('rejects a folder without a plugin, and reports a file that does not compile', async () => {
  await expect(pluginFiles([folder])).rejects.toThrow(`${folder} contains no plugin`);
  await save('broken.ts', 'export default {');
  await expect(pluginFiles([folder])).rejects.toThrow('broken.ts does not compile');
});
