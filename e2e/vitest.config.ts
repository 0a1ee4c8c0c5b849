import { defineConfig } from 'vitest/config';
import { canIsolateNetwork, machineNamespacePool } from '../tools/vitest/network-namespace-pool.ts';
import { longestFirst } from '../tools/vitest/longest-first.ts';

/** Files that take more than twenty seconds, longest first. */
const long = [
  'journeys/packages',
  'conformance/nodes.test',
  'matrix/docker',
  'journeys/volumes-cut-off',
  'matrix/process',
  'ha/failover',
  'conformance/nodes-docker',
  'matrix/containerd',
  'matrix/oci',
  'matrix/three-nodes-calico',
  'failures/kill-nine',
  'failures/node-chaos',
  'matrix/three-nodes-bridge',
  'ha/machines',
  'ha/faults',
  'journeys/servers',
  'journeys/kubectl.test',
  'journeys/console.test',
  'journeys/differ',
  'journeys/keys',
  'conformance/apps',
  'security/fuzz',
  'journeys/volumes-chaos',
  'journeys/third-party-extensions',
  'journeys/volumes-sidecars',
  'matrix/simulated',
  'journeys/commands-on-etcd',
  'conformance/network/network.test',
  'journeys/streams',
  'failures/plugin-faults',
  'journeys/plugins',
  'journeys/policies',
  'journeys/managers',
  'security/privileges',
  'journeys/volumes.test',
  'ha/roles-apart',
];

/** A cluster that does not belong to the tests is not reachable from a network namespace of their own. */
const isolatesNetwork = canIsolateNetwork && process.env['OARLOCK_STOCK_KUBECONFIG'] === undefined;

/** Files mostly wait for grace periods, leases and restarts: four run at a time if each has its own network namespace. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['{harness,matrix,journeys,conformance,failures,ha,security}/**/*.test.ts'],
    pool: isolatesNetwork ? machineNamespacePool : 'forks',
    // files that write a page run one after another
    maxWorkers: isolatesNetwork && !process.env['OARLOCK_WRITE_MATRIX'] ? 4 : 1,
    sequence: { sequencer: longestFirst(long) },
    // a failed wait reports itself long before this limit
    testTimeout: 900_000,
    hookTimeout: 900_000,
    teardownTimeout: 60_000,
    slowTestThreshold: 30_000,
    // the default of a second decides by elapsed time
    expect: { poll: { timeout: 180_000 } },
    // tests of one cluster mostly wait for it
    maxConcurrency: 14,
  },
});
