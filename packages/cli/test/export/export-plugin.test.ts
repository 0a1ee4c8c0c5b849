import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { exportPlugin } from '../../src/export/export-plugin.ts';
import { writeExport } from '../../src/export/write-export.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-export-'));
  await writeFile(config, 'namespace: default\nname: settings\nlabel: copy\n');
  vi.spyOn(console, 'log').mockImplementation(() => {});
});
afterAll(async () => {
  await rm(config);
  await rm(folder, { recursive: true });
});

const example = (name: string) => join(import.meta.dirname, '..', '..', '..', '..', 'examples', 'plugins', name, 'src', 'plugin.ts');
const config = join(tmpdir(), `oarlock-export-${process.pid}.yaml`);
const copy = { controller: example('controller-config-copy'), config };
const defaults = { baseImage: 'node', reads: [], replicas: 2, failurePolicy: 'Fail', timeout: 10 };

it('writes an image, manifests and a README of a controller', async () => {
  const output = join(folder, 'controller');
  await exportPlugin({ ...defaults, controller: example('controller-config-copy'), output, config });
  const read = (name: string) => readFile(join(output, name), 'utf8');
  expect(JSON.parse(await read('config.json'))).toEqual({ namespace: 'default', name: 'settings', label: 'copy' });
  expect(await read('image/Dockerfile')).toContain('EXPOSE 8080');
  expect((await stat(join(output, 'image/server.cjs'))).size).toBeGreaterThan(100_000);
  expect(await read('README.md')).toContain('create, update configmaps');
});

it('warns of the rules of the exported role', async () => {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
  await exportPlugin({ ...defaults, ...copy, reads: ['secrets'], output: join(folder, 'warned') });
  expect(printed.mock.calls.flat()).toEqual([expect.stringContaining('the plugin may read all Secrets')]);
  printed.mockRestore();
});

it.each([
  [{}, 'name one plugin to export: --webhook, --controller or --scheduler PLUGIN'],
  [{ controller: 'a', scheduler: 'b' }, 'name one plugin to export: --webhook, --controller or --scheduler PLUGIN'],
  [
    { scheduler: example('controller-config-copy') },
    'controller-config-copy provides controller/v1; --scheduler exports plugins of scheduling/v1',
  ],
  [{ controller: example('controller-config-copy') }, 'controller-config-copy'],
  [{ ...copy, name: 'view' }, '"view" is the name of an object of every cluster: name the objects of the export with --name'],
  [{ ...copy, name: 'system:node' }, '"system:node" is not a DNS label'],
  [{ ...copy, name: 'a\n---\nkind: ClusterRole' }, '"a\\n---\\nkind: ClusterRole" is not a DNS label'],
  [{ ...copy, namespace: '../a' }, '--namespace: "../a" is not a DNS label'],
])('rejects %j and writes nothing', async (options, message) => {
  const output = join(folder, 'rejected');
  await expect(exportPlugin({ ...defaults, ...options, output })).rejects.toThrow(message);
  await expect(stat(output)).rejects.toThrow('ENOENT');
});

it('a secret file is readable by its owner only, also if another one was there before', async () => {
  const [output, path] = [join(folder, 'secrets'), 'tls/tls.key'];
  const write = () => writeExport(new Map([[path, 'key']]), { output, image: 'a', rules: [], secrets: [path] });
  await write();
  await chmod(join(output, path), 0o644);
  await write();
  expect((await stat(join(output, path))).mode & 0o777).toBe(0o600);
});
