import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { silentLogger } from '@oarlock/primitives/logger';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import type { NodeNetwork } from '@oarlock/spi/network';
import { networkContract, type NetworkFixture } from '@oarlock/spi/network/contract';
import { HostNetwork } from '../src/host-network.ts';

const node: NodeNetwork = {
  nodeName: 'n1',
  podCIDRs: ['127.144.0.0/24'],
  clusterCIDRs: ['127.128.0.0/10'],
  serviceCIDRs: ['127.96.0.0/16'],
  nodeIPs: ['127.0.0.1'],
};

async function open(own: boolean): Promise<NetworkFixture> {
  const dataDir = await mkdtemp(join(tmpdir(), 'network-host-'));
  const make = async () => {
    const driver = new HostNetwork(
      { podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16', confDir: null, canBind: async () => own },
      { log: silentLogger, dataDir },
    );
    await driver.start();
    return driver;
  };
  return {
    driver: await make(),
    node,
    small: { ...node, podCIDRs: ['127.144.0.0/28'] },
    restart: make,
    async crashAdd(attachment, ofNode) {
      const program = fileURLToPath(new URL('./support/crashing-add.mjs', import.meta.url));
      const flags = loaderFlags(programPath('@oarlock/network-host/host-network', import.meta.url));
      const child = spawn(process.execPath, [...flags, program, dataDir, JSON.stringify(attachment), JSON.stringify(ofNode)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      await once(child.stdout, 'data');
      child.kill('SIGKILL');
      await exited;
    },
    countResources: async () => ({ files: (await readdir(join(dataDir, 'allocations'))).length }),
    ...(!own && { unsupported: { addresses: 'the platform binds only 127.0.0.1' } }),
    dispose: () => rm(dataDir, { recursive: true, force: true }),
  };
}

networkContract('network-host', () => open(true));
networkContract('network-host with a shared address', () => open(false));
