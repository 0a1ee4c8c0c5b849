import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { systemClock } from '@oarlock/primitives/clock';
import { expect, it, vi } from 'vitest';
import { TreeWorkers } from '../../src/layers/tree-workers.ts';

it('a thread that fails while it is idle is replaced', async () => {
  const path = await mkdtemp(join(tmpdir(), 'oarlock-tree-'));
  const workers = new TreeWorkers(systemClock, 1);
  const unref = vi.spyOn(Worker.prototype, 'unref');
  await workers.run('usage', { path });
  const idle = unref.mock.contexts[0] as Worker | undefined;
  unref.mockRestore();
  expect(() => idle?.emit('error', new Error('late'))).not.toThrow();
  await idle?.terminate();
  await expect(workers.run('usage', { path })).resolves.toBeDefined();
  await workers.close();
  await rm(path, { recursive: true });
});
