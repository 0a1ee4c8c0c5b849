import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { restrictToOwner } from '../../src/internal/socket-mode.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'oarlock-socket-'));
});
afterEach(() => rmSync(directory, { recursive: true }));
const modeOf = (path: string) => statSync(path).mode & 0o777;

it('restricts a socket to its owner', async () => {
  const path = join(directory, 'a.sock');
  const server = createServer().listen(path);
  await once(server, 'listening');
  chmodSync(path, 0o777);
  await restrictToOwner(path);
  expect(modeOf(path)).toBe(0o600);
  await new Promise((resolve) => server.close(resolve));
});

it.each(['file', 'directory'])('changes no %s to which a link in place of the socket leads', async (kind) => {
  const [target, path] = [join(directory, 'target'), join(directory, 'a.sock')];
  if (kind === 'file') writeFileSync(target, '');
  chmodSync(kind === 'file' ? target : directory, 0o755);
  symlinkSync(kind === 'file' ? target : directory, path);
  await expect(restrictToOwner(path)).rejects.toThrow('was replaced by another file');
  expect(modeOf(kind === 'file' ? target : directory)).toBe(0o755);
});
