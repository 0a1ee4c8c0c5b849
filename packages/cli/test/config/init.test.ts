import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { clusterFileSchema, init } from '../../src/config/init.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'oarlock-init-'));
  vi.spyOn(console, 'log').mockImplementation(() => {});
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(dir, { recursive: true, force: true });
});

it.each(readyCompositions())('writes a valid cluster.yaml that begins with %s', async (name) => {
  const output = join(dir, 'cluster.yaml');
  await init(name, { output });
  const text = await readFile(output, 'utf8');
  expect(text).toMatch(/^# yaml-language-server: \$schema=\.\/cluster\.schema\.json\n/);
  expect(parseClusterFile(text, output).spec).toEqual((await readClusterFile(name)).spec);
  expect(JSON.parse(await readFile(join(dir, 'cluster.schema.json'), 'utf8'))).toEqual(clusterFileSchema());
});

it('rejects an unknown composition and an existing file, and writes nothing', async () => {
  const output = join(dir, 'cluster.yaml');
  await expect(init('nothing', { output })).rejects.toThrow(/unknown composition "nothing"; ready compositions are: .*embedded/);
  expect(existsSync(output)).toBe(false);
  await writeFile(output, 'mine');
  await expect(init('embedded', { output })).rejects.toMatchObject({
    message: `${output} already exists; nothing was written. \`-o FILE\` names another file`,
    exitCode: 2,
  });
  expect(await readFile(output, 'utf8')).toBe('mine');
  expect(existsSync(join(dir, 'cluster.schema.json'))).toBe(false);
});

it('states why a file cannot be written', async () => {
  const output = join(dir, 'none', 'cluster.yaml');
  await expect(init('embedded', { output })).rejects.toMatchObject({
    message: `${output} cannot be written: no such file or directory; nothing was written. \`-o FILE\` names another file`,
    exitCode: 2,
  });
});

it('describes the sections of a cluster.yaml in the schema', () => {
  const { properties } = clusterFileSchema() as { readonly properties: { readonly spec: { readonly properties: object } } };
  expect(Object.keys(properties.spec.properties)).toEqual(expect.arrayContaining(['storage', 'runtimes', 'networking', 'server']));
});
