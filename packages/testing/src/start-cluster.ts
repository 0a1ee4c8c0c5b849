import { joined } from '@oarlock/cli/joined';
import { fromSource } from '@oarlock/cluster/plugins/plugin-compiler';
import type * as Here from './test-cluster.ts';

export type { TestPlugin, StartClusterOptions, TestCluster } from './test-cluster.ts';
type Start = typeof Here.startTestCluster;

/** What the build joined into one file starts several times as fast as the hundreds of modules that it is made of. */
const start = ((fromSource ? undefined : joined())?.startTestCluster ?? (await import('./test-cluster.ts')).startTestCluster) as Start;

/** A whole cluster in this process, on a free port and in a directory that goes with it: `await using cluster = await startCluster()`. */
export const startCluster: Start = (options) => start(options);
