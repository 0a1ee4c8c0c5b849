import { defineConfig } from 'vitest/config';
import { canIsolateNetwork, machineNamespacePool } from '../tools/vitest/network-namespace-pool.ts';
import { longestFirst } from '../tools/vitest/longest-first.ts';

/** Files that take more than half a minute. They start first. */
const long = [
  'matrix/three-nodes-calico',
  'failures/kill-nine',
  'ha/faults',
  'conformance/nodes',
  'matrix/docker',
  'matrix/three-nodes-bridge',
  'matrix/process',
  'matrix/containerd',
  'journeys/kubectl.test',
  'failures/node-chaos',
  'journeys/volumes',
  'journeys/plugins',
];

/** Files mostly wait for grace periods, leases and restarts: three run at a time if each has its own network namespace. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['{harness,matrix,journeys,conformance,failures,ha,security}/**/*.test.ts'],
    pool: canIsolateNetwork ? machineNamespacePool : 'forks',
    // files that write a page run one after another
    maxWorkers: canIsolateNetwork && !process.env['OARLOCK_WRITE_MATRIX'] ? 3 : 1,
    sequence: { sequencer: longestFirst(long) },
    // a failed wait reports itself long before this limit
    testTimeout: 900_000,
    hookTimeout: 900_000,
    teardownTimeout: 60_000,
    slowTestThreshold: 30_000,
    // tests of one cluster mostly wait for it
    maxConcurrency: 14,
  },
});
