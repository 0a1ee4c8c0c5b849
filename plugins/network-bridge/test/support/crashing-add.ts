// The contract suite runs this file in a separate process and kills it in the middle of `add`.
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Attachment, NodeNetwork } from '@oarlock/spi/network';
import { BridgeNetwork, type BridgeNetworkConfig } from '../../src/bridge-network.ts';

const [dataDir = '', config = '{}', attachment = '{}', node = '{}'] = process.argv.slice(2);
const driver = new BridgeNetwork(JSON.parse(config) as BridgeNetworkConfig, {
  traits: { namespace: 'pod', podCIDR: '', serviceCIDR: '' },
  context: { log: silentLogger, clock: systemClock, tracer: noTracer, dataDir },
});
await driver.start();
await driver.setup(JSON.parse(node) as NodeNetwork);
const adding = driver.add(JSON.parse(attachment) as Attachment);
process.stdout.write('adding\n');
await adding;
setInterval(() => {}, 1000);
