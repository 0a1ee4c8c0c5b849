import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { socketPath } from '@oarlock/primitives/os/socket-path';

it('is the path below the directory if the kernel takes it', () => {
  expect(socketPath('/short', 'a.sock')).toBe('/short/a.sock');
});

it('leads to a directory whose path is too long for the kernel', async () => {
  const root = await mkdtemp(join(tmpdir(), 'oarlock-path-'));
  const directory = join(root, 'x'.repeat(120));
  await mkdir(directory);
  const server = createServer();
  try {
    const path = socketPath(directory, 'a.sock');
    expect(path.length).toBeLessThan(100);
    server.listen(path);
    await once(server, 'listening');
  } finally {
    server.close();
    await rm(root, { recursive: true });
  }
});
