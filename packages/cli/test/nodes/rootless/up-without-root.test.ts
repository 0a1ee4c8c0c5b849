import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { expect, it, vi } from 'vitest';
import { namespaceProblem } from '../../../src/nodes/rootless/node-namespaces.ts';
import { upWithoutRoot } from '../../../src/nodes/rootless/up-without-root.ts';

const problem = await namespaceProblem();

it.skipIf(problem !== undefined && process.env['CI'] !== 'true')('leaves no process when a node does not start', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'up-without-root-'));
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const file = { spec: { server: { address: '127.0.0.1', port } } } as ClusterFile;
  await expect(upWithoutRoot({ file, dataDir, onReady: () => {}, onWarning: () => {} })).rejects.toThrow(
    `port ${port} of 127.0.0.1 is in use`,
  );
  const { pid } = JSON.parse(await readFile(join(dataDir, 'node', 'namespaces.json'), 'utf8')) as { readonly pid: number };
  await vi.waitFor(() => expect(startTime(pid)).toBeUndefined());
  server.close();
  await rm(dataDir, { recursive: true });
});
