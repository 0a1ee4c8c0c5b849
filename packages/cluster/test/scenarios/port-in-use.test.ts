import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { run } from '@oarlock/cluster/run';
import { expect, it } from 'vitest';

// volume-csi sends requests before the API server is up, and waits for the responses when it stops
const text = `
apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  storage: storage-memory
  runtimes: [runtime-simulated]
  volumes: [volume-csi]
  settings: { kubelet: { port: 0 } }
`;

it('run fails if its port is in use, even if plugins wait for the API server', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'oarlock-taken-'));
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  const { port } = squatter.address() as AddressInfo;
  try {
    await expect(run({ file: parseClusterFile(text, join(dataDir, 'cluster.yaml')), dataDir, port })).rejects.toMatchObject({
      faults: [{ code: 'StartFailed', path: 'spec.settings.apiserver', message: expect.stringContaining(String(port)) }],
    });
    expect(await readProcessState(dataDir)).toBeUndefined();
  } finally {
    squatter.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
