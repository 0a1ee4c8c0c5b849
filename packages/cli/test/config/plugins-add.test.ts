import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { add } from '../../src/config/plugins-add.ts';

vi.spyOn(console, 'log').mockImplementation(() => {});

const text = `apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  roles: [apiserver]
  storage: storage-memory
  # in this order
  admission:
    - admission-namespace-lifecycle
`;
let base: string;
let folder: string;
let file: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'oarlock-add-test-'));
  folder = join(base, 'cluster');
  await mkdir(folder);
  file = join(folder, 'cluster.yaml');
  await writeFile(file, text);
});
afterEach(() => rm(base, { recursive: true }));

/** Writes a package with an admission plugin that requires the config key \`label\`. */
async function makePackage(): Promise<string> {
  const plugin = join(base, 'plugin');
  await mkdir(plugin);
  const manifest = { name: 'admission-label', version: '1.0.0', type: 'module', exports: { './plugin': './plugin.ts' } };
  await writeFile(join(plugin, 'package.json'), JSON.stringify(manifest));
  await writeFile(
    join(plugin, 'plugin.ts'),
    `import { Admission } from '@oarlock/spi/admission';
import { z } from 'zod';
export default Admission.plugin({ id: 'admission-label', config: z.strictObject({ label: z.string() }), create: () => ({ matches: [] }) });
`,
  );
  return plugin;
}

it('installs a package and adds it with its config', async () => {
  const config = join(base, 'config.yaml');
  await writeFile(config, 'label: team\n');
  await add(await makePackage(), { file, config });
  expect(await readFile(file, 'utf8')).toBe(`${text}    - use: admission-label\n      config:\n        label: team\n`);
  expect((await readdir(folder)).sort()).toEqual(['cluster.yaml', 'node_modules', 'package-lock.json', 'package.json']);
});

it('restores the folder if the file is invalid with the plugin', async () => {
  await expect(add(await makePackage(), { file })).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining('label') });
  expect(await readFile(file, 'utf8')).toBe(text);
  expect(await readdir(folder)).toEqual(['cluster.yaml']);
});

it('does not install what Oarlock contains, and changes nothing for a wrong name or file', async () => {
  await add('admission-limit-ranger', { file });
  expect(await readFile(file, 'utf8')).toBe(`${text}    - admission-limit-ranger\n`);
  expect(await readdir(folder)).toEqual(['cluster.yaml']);
  await expect(add('admission-limit-ranger', { file })).rejects.toThrow('spec.admission already has admission-limit-ranger');
  await expect(add('--force', { file })).rejects.toThrow('is no name of an npm package');
  await expect(add('admission-priority', { file: join(folder, 'missing.yaml') })).rejects.toThrow('missing.yaml cannot be read');
  expect(await readdir(folder)).toEqual(['cluster.yaml']);
});
