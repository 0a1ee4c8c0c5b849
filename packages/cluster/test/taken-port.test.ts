import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseClusterFile } from '@oarlock/cluster/cluster-file';
import { readState } from '@oarlock/cluster/process-state';
import { run } from '@oarlock/cluster/run';
import { expect, it } from 'vitest';

// volume-csi asks the API server before there is one, and waits for the answer when it is stopped
const text = `
apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  storage: storage-memory
  runtimes: [runtime-simulated]
  volumes: [volume-csi]
  settings: { kubelet: { port: 0 } }
`;

it('ends a start whose port is taken, whatever waits for the API server that never comes', { timeout: 300_000 }, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'oarlock-taken-'));
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  const { port } = squatter.address() as AddressInfo;
  try {
    await expect(run({ file: parseClusterFile(text, join(dataDir, 'cluster.yaml')), dataDir, port })).rejects.toMatchObject({
      faults: [{ code: 'StartFailed', path: 'spec.settings.apiserver', message: expect.stringContaining(String(port)) }],
    });
    expect(await readState(dataDir)).toBeUndefined();
  } finally {
    squatter.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
