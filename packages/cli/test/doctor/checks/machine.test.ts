import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { thisMachine } from '../../../src/doctor/checks/machine.ts';

let directory: string;
const machine = thisMachine();
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-machine-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('connects to sockets, and returns the code of the error', async () => {
  const path = join(directory, 's');
  expect(await machine.connect(path)).toBe('ENOENT');
  const server = createServer().listen(path);
  await once(server, 'listening');
  expect(await machine.connect(path)).toBeUndefined();
  server.close();
});

it('listens on ports, and returns the code of the error', async () => {
  const server = createServer().listen(0);
  await once(server, 'listening');
  expect(await machine.listen((server.address() as AddressInfo).port)).toBe('EADDRINUSE');
  server.close();
  expect(await machine.listen(0)).toBeUndefined();
});

it('runs programs without a shell, and reports those that fail or do not exist', async () => {
  expect(await machine.run('echo', ['$HOME; a'])).toEqual({ code: 0, stdout: '$HOME; a\n', problem: '' });
  expect(await machine.run('sh', ['-c', 'echo first >&2; echo last >&2; exit 3'])).toEqual({ code: 3, stdout: '', problem: 'last' });
  expect(await machine.run('/no/such', [])).toMatchObject({ code: 127, problem: expect.stringContaining('ENOENT') });
});

it('removes the directory after the work, also if it fails', async () => {
  let directoryOfWork = '';
  const work = async (path: string) => {
    directoryOfWork = path;
    expect((await stat(path)).isDirectory()).toBe(true);
    throw new Error('no');
  };
  await expect(machine.withDirectory(directory, work)).rejects.toThrow('no');
  await expect(stat(directoryOfWork)).rejects.toMatchObject({ code: 'ENOENT' });
});
