import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { exportPlugin } from '../../src/export/export-plugin.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-export-'));
  vi.spyOn(console, 'log').mockImplementation(() => {});
});
afterAll(() => rm(folder, { recursive: true }));

const example = (name: string) => join(import.meta.dirname, '..', '..', '..', '..', 'examples', 'plugins', name, 'src', 'plugin.ts');
const defaults = { baseImage: 'node', reads: [], replicas: 2, failurePolicy: 'Fail', timeout: 10 };

it('writes an image, manifests and a README of a controller', async () => {
  const output = join(folder, 'controller');
  const config = join(folder, 'config.yaml');
  await writeFile(config, 'namespace: default\nname: settings\nlabel: copy\n');
  await exportPlugin({ ...defaults, controller: example('controller-config-copy'), output, config });
  const read = (name: string) => readFile(join(output, name), 'utf8');
  expect(JSON.parse(await read('config.json'))).toEqual({ namespace: 'default', name: 'settings', label: 'copy' });
  expect(await read('image/Dockerfile')).toContain('EXPOSE 8080');
  expect((await stat(join(output, 'image/server.cjs'))).size).toBeGreaterThan(100_000);
  expect(await read('README.md')).toContain('create, update configmaps');
});

it.each([
  [{}, 'name one plugin to export: --webhook, --controller or --scheduler PLUGIN'],
  [{ controller: 'a', scheduler: 'b' }, 'name one plugin to export: --webhook, --controller or --scheduler PLUGIN'],
  [
    { scheduler: example('controller-config-copy') },
    'controller-config-copy provides controller/v1; --scheduler exports plugins of scheduling/v1',
  ],
  [{ controller: example('controller-config-copy') }, 'controller-config-copy'],
])('rejects %j and writes nothing', async (options, message) => {
  const output = join(folder, 'rejected');
  await expect(exportPlugin({ ...defaults, ...options, output })).rejects.toThrow(message);
  await expect(stat(output)).rejects.toThrow('ENOENT');
});
