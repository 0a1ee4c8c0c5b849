// The contract suite runs this file in a separate process and kills it in the middle of `add`. In JavaScript, because it runs with the built packages.
import { silentLogger } from '@oarlock/primitives/logger';
import { HostNetwork } from '@oarlock/network-host/host-network';

const [dataDir = '', attachment = '{}', node = '{}'] = process.argv.slice(2);
const driver = new HostNetwork(
  { podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16', confDir: null, canBind: async () => true },
  { log: silentLogger, dataDir },
);
await driver.start();
await driver.setup(JSON.parse(node));
const adding = driver.add(JSON.parse(attachment));
process.stdout.write('adding\n');
await adding;
setInterval(() => {}, 1000);
