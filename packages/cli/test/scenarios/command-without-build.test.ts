import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-unbuilt-'));
});
afterEach(() => rm(folder, { recursive: true }));

it('states how to build a checkout that is not built', async () => {
  await cp(fileURLToPath(new URL('../../bin', import.meta.url)), join(folder, 'bin'), { recursive: true });
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const result = await new Promise((resolve) => {
    execFile(process.execPath, [join(folder, 'bin', 'oarlock.js'), 'up'], (error, stdout, stderr) =>
      resolve({ code: error?.code, stdout, stderr }),
    );
  });
  expect(result).toEqual({
    code: 1,
    stdout: '',
    stderr: 'oarlock is not built yet: run `npm start` or `npm run build` in the checkout first.\n',
  });
});
