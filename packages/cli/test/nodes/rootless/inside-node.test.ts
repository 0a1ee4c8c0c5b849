import apiserver from '@oarlock/apiserver/plugin';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { readyComposition } from '@oarlock/cluster/composition/ready-compositions';
import { expect, it } from 'vitest';
import { fileInside } from '../../../src/nodes/rootless/inside-node.ts';
import { gatewayAddress } from '../../../src/nodes/rootless/node-address.ts';

it('the API server of a node without root proxies no request to the gateway, which stands for the loopback address of the host', async () => {
  const file = await readClusterFile(readyComposition('rootless') ?? '');
  const settings = { ...file.spec.settings, apiserver: { drainSeconds: 1, neverProxied: ['192.0.2.1'] } };
  for (const [spec, neverProxied] of [
    [file.spec, [gatewayAddress]],
    [{ ...file.spec, settings }, [gatewayAddress, '192.0.2.1']],
  ] as const)
    expect(apiserver.config.parse(fileInside({ ...file, spec }).spec.settings.apiserver)).toMatchObject({ neverProxied });
});
