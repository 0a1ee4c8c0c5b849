import { defineConfig } from 'vitest/config';
import { canIsolateNetwork, machineNamespacePool } from '../tools/vitest/network-namespace-pool.ts';
import { longestFirst } from '../tools/vitest/longest-first.ts';

/** Those of more than half a minute. */
const long = [
  'matrix/three-nodes-calico',
  'failures/kill-nine',
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

/** Files wait for grace periods, leases and restarts more than they work: where they do not meet on the network, three run at a time. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['{harness,matrix,journeys,conformance,failures,security}/**/*.test.ts'],
    pool: canIsolateNetwork ? machineNamespacePool : 'forks',
    // those that write a page do so one after another
    maxWorkers: canIsolateNetwork && !process.env['OARLOCK_WRITE_MATRIX'] ? 3 : 1,
    sequence: { sequencer: longestFirst(long) },
    // what is waited for in vain says so itself, long before
    testTimeout: 900_000,
    hookTimeout: 900_000,
    teardownTimeout: 60_000,
    slowTestThreshold: 30_000,
    // tests that share a cluster wait for it most of the time
    maxConcurrency: 14,
    // as for the contract tests: real daemons on a busy machine
    retry: process.env['CI'] ? 1 : 0,
  },
});
