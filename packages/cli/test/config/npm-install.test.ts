import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packageSpec } from '../../src/config/npm-install.ts';

it.each([
  ['oarlock-admission-a', 'oarlock-admission-a'],
  ['@acme/admission-a@^1.2', '@acme/admission-a'],
  ['admission-a@next', 'admission-a'],
])('parses %j', async (text, name) => {
  expect(await packageSpec(text)).toEqual({ install: text, name });
});

it.each(['--prefix', 'git+ssh://host/x', 'A b', '@acme/', 'a@', 'a;b'])('rejects %j', async (text) => {
  await expect(packageSpec(text)).rejects.toThrow('is no name of an npm package');
});

it('takes the name of a folder from its manifest', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oarlock-spec-'));
  try {
    await expect(packageSpec(folder)).rejects.toThrow('package.json does not exist');
    await writeFile(join(folder, 'package.json'), '{ "name": "admission-a" }');
    expect(await packageSpec(folder)).toEqual({ install: folder, name: 'admission-a' });
    for (const name of ['--prefix=/', '../../etc/a', '/etc/a', 'a b', 'a\n- use: b', '@acme/../a', '']) {
      await writeFile(join(folder, 'package.json'), JSON.stringify({ name }));
      await expect(packageSpec(folder)).rejects.toThrow(`${JSON.stringify(name)} is no name of an npm package`);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});
