// The contract suite runs this file in a separate process and kills it in the middle of `add`. In JavaScript, because it runs with the built packages.
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import { BridgeNetwork } from '@oarlock/network-bridge/bridge-network';

const [dataDir = '', config = '{}', attachment = '{}', node = '{}'] = process.argv.slice(2);
const driver = new BridgeNetwork(JSON.parse(config), {
  traits: { namespace: 'pod', podCIDR: '', serviceCIDR: '' },
  context: { log: silentLogger, clock: systemClock, tracer: noTracer, dataDir },
});
await driver.start();
await driver.setup(JSON.parse(node));
const adding = driver.add(JSON.parse(attachment));
process.stdout.write('adding\n');
await adding;
setInterval(() => {}, 1000);
