import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-unbuilt-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Runs the command of a checkout that has only its programs, and the given files. */
async function runUnbuilt(files: readonly string[] = []): Promise<unknown> {
  const cli = join(folder, 'packages', 'cli');
  await cp(fileURLToPath(new URL('../../bin', import.meta.url)), join(cli, 'bin'), { recursive: true });
  await writeFile(join(cli, 'package.json'), '{ "type": "module" }');
  for (const file of files) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), '');
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [join(cli, 'bin', 'oarlock.js'), 'up'], (error, stdout, stderr) =>
      resolve({ code: error?.code, stdout, stderr }),
    );
  });
}

it('states how to build a checkout that is not built', async () => {
  expect(await runUnbuilt()).toEqual({
    code: 1,
    stdout: '',
    stderr: 'oarlock is not built yet: run `npm start` or `npm run build` in the checkout first.\n',
  });
});

it('does not load the modules of a build that was interrupted', async () => {
  expect(await runUnbuilt(['packages/cli/dist/main.js', 'node_modules/.oarlock-building'])).toEqual({
    code: 1,
    stdout: '',
    stderr: 'the build of oarlock was not finished: run `npm start` or `npm run build` in the checkout first.\n',
  });
});
