import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { probeCompositions } from '../../src/doctor/compositions.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-compositions-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('names each plugin that cannot run here, and why', async () => {
  const file = join(directory, 'cluster.yaml');
  const socket = join(directory, 'none.sock');
  await writeFile(
    file,
    `apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  storage: storage-memory
  runtimes: [{ use: runtime-containerd, config: { socket: ${socket} } }]
  network: network-host
`,
  );
  const results = await probeCompositions(['embedded', 'simulated-1000', file]);
  expect(results).toEqual([
    { name: 'embedded', canRun: true, reasons: [] },
    { name: 'simulated-1000', canRun: true, reasons: [] },
    {
      name: file,
      canRun: false,
      reasons: [`runtime-containerd: there is no socket at ${socket} (containerd is not installed, or does not run)`],
    },
  ]);
});
