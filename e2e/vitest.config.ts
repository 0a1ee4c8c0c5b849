import { defineConfig } from 'vitest/config';
import { canIsolateNetwork, machineNamespacePool } from '../tools/vitest/network-namespace-pool.ts';
import { longestFirst } from '../tools/vitest/longest-first.ts';

/** Files that take more than twenty seconds, longest first. */
const long = [
  'journeys/console.test',
  'journeys/console-large',
  'matrix/docker',
  'ha/joins-during-rotation',
  'matrix/process',
  'journeys/volumes-cut-off',
  'journeys/kubectl.test',
  'conformance/nodes.test',
  'conformance/nodes-oci.test',
  'journeys/packages',
  'journeys/container-image',
  'matrix/containerd',
  'matrix/oci',
  'journeys/servers',
  'journeys/differ',
  'ha/failover',
  'conformance/nodes-docker',
  'ha/ca-rotation',
  'ha/machines',
  'conformance/nodes-oci-without-runc',
  'conformance/nodes-oci-mapped-users',
  'conformance/nodes-oci-one-user',
  'failures/node-chaos-oci',
  'failures/node-chaos.test',
  'ha/etcd-ca-rotation',
  'failures/kill-nine',
  'ha/etcd-upgrade',
  'journeys/volumes-chaos',
  'security/fuzz',
  'matrix/three-nodes-calico',
  'journeys/commands-on-etcd',
  'journeys/streams',
  'journeys/console-memory',
  'matrix/simulated',
  'journeys/keys',
  'journeys/third-party-extensions',
  'journeys/private-images',
  'failures/plugin-faults',
  'journeys/images',
  'journeys/plugins',
  'journeys/volumes-sidecars',
  'ha/faults',
  'matrix/three-nodes-bridge',
  'conformance/network/network.test',
  'journeys/managers',
  'journeys/policies',
  'journeys/volumes-stateful',
  'journeys/command-line',
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
