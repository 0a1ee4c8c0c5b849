import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { firstUsablePort } from '@oarlock/cluster/process/privileged-ports';
import { describe, expect, it } from 'vitest';

const clusterDnsOf = async (spec: object) => {
  const whole = { storage: 'storage-memory', runtimes: ['runtime-process'], ...spec };
  const { plugins } = await createPlan(
    parseClusterFile(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: whole }), 'cluster.yaml'),
  );
  const [kubelet] = plugins.filter(({ name }) => name === 'kubelet').map(({ config }) => config as { clusterDNS?: readonly string[] });
  return kubelet?.clusterDNS;
};
const dns = { use: 'dns-server', config: { address: '127.0.0.1' } };

describe('the DNS servers of pods on the network of the host', () => {
  it('are those of the host if no plugin serves the DNS of the cluster', async () => {
    expect(await clusterDnsOf({ network: 'network-host' })).toEqual([]);
  });

  it('are the DNS Service, unless this process may not listen on its port', async () => {
    expect(await clusterDnsOf({ network: 'network-host', proxy: 'proxy-userspace', dns })).toEqual(firstUsablePort() > 53 ? [] : undefined);
  });

  it('are those of the settings of the kubelet', async () => {
    const settings = { kubelet: { clusterDNS: ['127.96.0.10'] } };
    expect(await clusterDnsOf({ network: 'network-host', settings })).toEqual(['127.96.0.10']);
  });
});

it('the DNS server of pods on a network of their own is the DNS Service, which pods may serve', async () => {
  expect(await clusterDnsOf({ network: 'network-bridge' })).toBeUndefined();
});
