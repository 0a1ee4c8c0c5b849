import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { withoutToken } from '../../src/common/token-argument.ts';

it.each([
  [
    ['node', 'join', '--token', 'a.b', '--server', 'https://a'],
    ['node', 'join', '--server', 'https://a'],
  ],
  [
    ['node', 'join', '--token=a.b', '--detach'],
    ['node', 'join', '--detach'],
  ],
  [
    ['server', 'join', 'https://a', '--token', 'a.b.c'],
    ['server', 'join', 'https://a'],
  ],
  [
    ['node', 'join', '--token'],
    ['node', 'join'],
  ],
  [
    ['up', '--', '--token', 'a'],
    ['up', '--', '--token', 'a'],
  ],
])('%j without the token is %j', (args, expected) => {
  expect(withoutToken(args)).toEqual(expected);
});

it.skipIf(process.platform !== 'linux')('a token is not in the command line that other users of the machine can read', async () => {
  const source = ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')];
  const main = new URL('../../src/common/token-argument.ts', import.meta.url);
  const program = `import(${JSON.stringify(main.href)}).then(({ hideToken }) => { hideToken(); console.log('ready'); process.stdin.resume(); })`;
  const child = spawn(process.execPath, [...source, '-e', program, 'node', 'join', '--token', 'abcdef.0123456789abcdef', '--detach'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  const commandLine = await readFile(`/proc/${child.pid}/cmdline`, 'utf8');
  child.stdin.end();
  await once(child, 'exit');
  expect(commandLine).toContain('node join --detach');
  expect(commandLine).not.toContain('0123456789abcdef');
});
