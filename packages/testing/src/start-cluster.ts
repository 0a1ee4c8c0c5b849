import { joined } from '@oarlock/cli/joined';
import { fromSource } from '@oarlock/cluster/plugins/plugin-compiler';
import type * as Here from './test-cluster.ts';

export type { TestPlugin, StartClusterOptions, TestCluster } from './test-cluster.ts';
type Start = typeof Here.startTestCluster;

/** Starts a cluster from the bundled build if it exists, which starts several times as fast as hundreds of separate modules. */
const start = ((fromSource ? undefined : joined())?.startTestCluster ?? (await import('./test-cluster.ts')).startTestCluster) as Start;

/** Starts a cluster in this process, on a free port, in a temporary directory: `await using cluster = await startCluster()`. */
export const startCluster: Start = (options) => start(options);
