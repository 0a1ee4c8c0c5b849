// Runs what the build joined once, so that V8 keeps what it compiles: every plugin of the default composition is loaded, and a cluster in memory
// is started and answers. Its arguments are those of a command.
import { joined } from '../packages/cli/bin/joined.js';

const { main, startTestCluster } = joined();
const cluster = await startTestCluster();
await cluster.stop();
await main();
