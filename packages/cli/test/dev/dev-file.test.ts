import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { devFile } from '../../src/dev/dev-file.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-dev-file-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Writes a plugin of a slot, and returns its path. */
async function pluginOf(slot: string): Promise<string> {
  const path = join(folder, `${slot}.ts`);
  const name = `${slot.slice(0, 1).toUpperCase()}${slot.slice(1)}`;
  await writeFile(
    path,
    `import { ${name} } from '@oarlock/spi/${slot}';
import { z } from 'zod';
export default ${name}.plugin({ id: '${slot}-own', config: z.strictObject({}), create: () => ({}) });
`,
  );
  return path;
}

it('has the console, and storage in memory, without a file', async () => {
  const { spec } = await devFile([], undefined);
  expect(spec).toMatchObject({ storage: { use: 'storage-memory' }, paths: [{ use: 'console' }] });
});

it('places a plugin in the section of its slot', async () => {
  const path = await pluginOf('audit');
  expect((await devFile([path], undefined)).spec.audit).toContainEqual({ use: path, config: {} });
});

it('rejects a plugin that no role of the cluster loads', async () => {
  await expect(devFile([await pluginOf('dns')], undefined)).rejects.toThrow(/dns\.ts provides dns\/v1, which runs in the role proxy: /);
});
