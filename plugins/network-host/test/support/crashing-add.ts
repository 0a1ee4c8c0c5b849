// The contract suite runs this file in a separate process and kills it in the middle of `add`.
import { silentLogger } from '@oarlock/primitives/logger';
import type { Attachment, NodeNetwork } from '@oarlock/spi/network';
import { HostNetwork } from '../../src/host-network.ts';

const [dataDir = '', attachment = '{}', node = '{}'] = process.argv.slice(2);
const driver = new HostNetwork(
  { podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16', confDir: null, canBind: async () => true },
  { log: silentLogger, dataDir },
);
await driver.start();
await driver.setup(JSON.parse(node) as NodeNetwork);
const adding = driver.add(JSON.parse(attachment) as Attachment);
process.stdout.write('adding\n');
await adding;
setInterval(() => {}, 1000);
