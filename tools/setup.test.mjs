import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
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

it('an interrupted step ends after its program, which undoes its work', async () => {
  const child =
    'process.on("SIGINT", () => setImmediate(() => { console.log("undone"); process.exit(1); })); setInterval(() => {}, 1000); console.log("began");';
  const program = `import { run } from ${JSON.stringify(new URL('setup.mjs', import.meta.url).href)}; await run(process.execPath, ['--eval', ${JSON.stringify(child)}], { show: true });`;
  const step = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  step.stdout.on('data', (chunk) => {
    output += chunk;
    if (output === 'began\n') step.kill('SIGINT');
  });
  const [code] = await once(step, 'close');
  expect([code, output]).toEqual([130, 'began\nundone\n']);
});
