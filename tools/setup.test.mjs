import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';

const check = (folder) => {
  const program = `import { checkWritable } from ${JSON.stringify(new URL('setup.mjs', import.meta.url).href)}; checkWritable(${JSON.stringify(folder)});`;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' });
};

it('setting up a checkout that cannot be written states what to do', () => {
  expect(check('/nonexistent/checkout')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/The checkout \/nonexistent\/checkout cannot be written \(ENOENT\).*\n.*copy it/),
  });
  expect(check(tmpdir())).toMatchObject({ status: 0, stderr: '' });
});
