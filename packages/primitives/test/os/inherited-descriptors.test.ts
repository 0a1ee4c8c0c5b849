import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const module = fileURLToPath(import.meta.resolve('@oarlock/primitives/os/inherited-descriptors'));
const loader = ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register'), '--input-type=module'];
const program = `
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
const { closeInheritedDescriptors } = await import(${JSON.stringify(module)});
closeInheritedDescriptors();
const { stdout } = spawnSync('ls', ['/proc/self/fd'], { encoding: 'utf8' });
console.log(JSON.stringify({ passed: stdout.trim().split('\\n').map(Number), readable: readFileSync('/etc/hostname').length > 0 }));
`;

it.skipIf(process.platform !== 'linux')('children of a process do not have the descriptors that the process has inherited', () => {
  const directory = openSync('/', 'r');
  const unused = (count: number) => Array.from({ length: count }, () => 'ignore' as const);
  const { stdout, stderr } = spawnSync(process.execPath, [...loader, '--eval', program], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe', directory, ...unused(36), directory, ...unused(159), directory],
  });
  closeSync(directory);
  expect(stderr).toBe('');
  // 3 is that with which `ls` reads the directory
  expect(JSON.parse(stdout)).toEqual({ passed: [0, 1, 2, 3], readable: true });
});
