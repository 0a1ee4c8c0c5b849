// Runs the bundle once, so that V8's code cache covers a start: loads every plugin of the default composition, and starts a cluster in memory that
// handles a request. Its arguments are those of a command, and OARLOCK_JOINED the `joined.js` of another bundle.
const { joined } = await import(process.env.OARLOCK_JOINED ?? '../packages/cli/bin/joined.js');

const { main, startTestCluster } = joined();
const cluster = await startTestCluster();
await cluster.stop();
await main();
