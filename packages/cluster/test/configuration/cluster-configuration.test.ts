import {
  clusterConfigurationOf,
  configurationChanges,
  formatConfiguration,
  joinConflicts,
  parseConfiguration,
  type ClusterConfiguration,
} from '@oarlock/cluster/configuration/cluster-configuration';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { describe, expect, it } from 'vitest';
import { clusterFacts } from '../support/facts.ts';

const fileOf = (spec: object) => parseClusterFile(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }), 'cluster.yaml');
const cluster: ClusterConfiguration = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['127.96.0.0/16'],
  nodePorts: '30000-32767',
  dnsServiceIP: '127.96.0.10',
  components: { volumes: [] },
};
const conflicts = (spec: object, changes: Partial<ClusterConfiguration> = {}) => joinConflicts(fileOf(spec), { ...cluster, ...changes });

describe('cluster configuration', () => {
  it('contains the facts and the components of the file, whatever roles the process has', () => {
    const file = fileOf({
      roles: ['apiserver'],
      network: 'network-bridge',
      policy: 'policy-nftables',
      proxy: 'proxy-nftables',
      dns: 'dns-server',
      volumes: ['volume-csi'],
    });
    const configuration = clusterConfigurationOf(file, clusterFacts);
    expect(configuration).toEqual({
      name: 'test',
      domain: 'cluster.local',
      podCIDRs: ['10.244.0.0/16'],
      serviceCIDRs: ['10.96.0.0/16'],
      nodePorts: '30000-32767',
      dnsServiceIP: '10.96.0.10',
      components: {
        network: 'network-bridge',
        policy: 'policy-nftables',
        proxy: 'proxy-nftables',
        dns: 'dns-server',
        volumes: ['volume-csi'],
      },
    });
    expect(parseConfiguration(formatConfiguration(configuration))).toEqual(configuration);
  });

  it('is undefined if the stored text has another form', () => {
    expect(parseConfiguration(undefined)).toBeUndefined();
    expect(parseConfiguration('{')).toBeUndefined();
    expect(parseConfiguration('name: x')).toBeUndefined();
  });

  it('lists changed fields with both values', () => {
    expect(configurationChanges(cluster, { ...cluster, featureGates: { EnvFiles: false } })).toEqual([
      'featureGates from none to EnvFiles=false',
    ]);
    expect(configurationChanges(cluster, cluster)).toEqual([]);
    expect(
      configurationChanges(cluster, { ...cluster, domain: 'b', components: { policy: 'policy-nftables', volumes: ['volume-csi'] } }),
    ).toEqual(['domain from cluster.local to b', 'volumes from none to volume-csi', 'policy from none to policy-nftables']);
  });
});

describe('join of a node', () => {
  it('takes the fields that its file leaves out from the cluster', async () => {
    expect(
      await conflicts({ network: 'network-host', proxy: 'proxy-userspace' }, { domain: 'example.test', nodePorts: '20000-20100' }),
    ).toEqual([]);
  });

  it.each([
    ['domain', 'a.test', 'cluster.local'],
    ['serviceCIDRs', ['10.96.0.0/16'], '127.96.0.0/16'],
    ['podCIDRs', ['10.0.0.0/16'], '10.244.0.0/16'],
    ['nodePorts', '20000-20100', '30000-32767'],
  ] as const)('is rejected if networking.%s differs', async (key, own, theirs) => {
    expect(await conflicts({ networking: { [key]: own } })).toEqual([
      `spec.networking.${key}: this node has ${[own].flat().join(',')}, the cluster ${theirs}`,
    ]);
  });

  it('takes the feature gates of the cluster, and is rejected if its file has others', async () => {
    const features = { featureGates: { HostnameOverride: false }, emulationVersion: '1.35' };
    expect(await conflicts({}, features)).toEqual([]);
    expect(await conflicts({ featureGates: { HostnameOverride: false, EnvFiles: true }, emulationVersion: '1.35' }, features)).toEqual([]);
    expect(await conflicts({ featureGates: { HostnameOverride: true, EnvFiles: false }, emulationVersion: '1.34' }, features)).toEqual([
      'spec.featureGates.HostnameOverride: this node has true, the cluster false',
      'spec.featureGates.EnvFiles: this node has false, the cluster true',
      'spec.emulationVersion: this node has 1.34, the cluster 1.35',
    ]);
  });

  it('is rejected without the policy or the proxy of the cluster', async () => {
    const components = { policy: 'policy-nftables', proxy: 'proxy-nftables', volumes: [] };
    expect(await conflicts({}, { components })).toEqual([
      'spec.policy: this node has none, the cluster policy-nftables, which this node would not enforce',
      'spec.proxy: this node has none, the cluster proxy-nftables, which this node would not serve',
    ]);
  });

  it('is rejected with a policy for which the control plane grants no rights', async () => {
    expect(await conflicts({ policy: 'policy-nftables' })).toEqual([
      'spec.policy: this node has policy-nftables, the cluster none: the file of the control plane must also have it, which lets nodes list NetworkPolicies',
    ]);
  });

  it('is rejected with DNS or volumes for which the control plane creates no objects', async () => {
    expect(await conflicts({ dns: 'dns-server', volumes: ['volume-csi'] })).toEqual([
      'spec.dns: this node has dns-server, the cluster none: the file of the control plane must also have it, which creates the Service kube-dns',
      'spec.volumes: this node has volume-csi, the cluster none: the file of the control plane must also have it, which creates CSIDrivers and StorageClasses',
    ]);
  });

  it('is rejected if its pods would wait for volumes of the cluster, but not with simulated pods', async () => {
    const components = { volumes: ['volume-csi'] };
    expect(await conflicts({ runtimes: ['runtime-process'] }, { components })).toEqual([
      'spec.volumes: this node has none, the cluster volume-csi, whose volumes pods on this node would wait for: the file of the node must also have it',
    ]);
    expect(await conflicts({ runtimes: ['runtime-process'], volumes: ['volume-csi'] }, { components })).toEqual([]);
    expect(await conflicts({ runtimes: ['runtime-simulated'] }, { components })).toEqual([]);
  });

  it('is rejected if its proxy cannot listen on the addresses of Services', async () => {
    expect(await conflicts({ proxy: 'proxy-userspace' }, { serviceCIDRs: ['198.18.0.0/16'] })).toEqual([
      "spec.proxy: proxy-userspace listens on the addresses of Services, and this machine cannot listen on 198.18.0.1 of the cluster's networking.serviceCIDRs 198.18.0.0/16: use a range such as 127.96.0.0/16 in the file of the control plane",
    ]);
    expect(await conflicts({ proxy: 'proxy-nftables' }, { serviceCIDRs: ['198.18.0.0/16'] })).toEqual([]);
  });
});

describe('control plane without a kubelet', () => {
  it.each(['apiserver', 'controllers'] as const)(
    'loads volume plugins, which create the objects of the cluster, with the role %s',
    async (role) => {
      const { plugins } = await createPlan(fileOf({ roles: [role], volumes: ['volume-csi'] }));
      expect(plugins.some(({ plugin }) => plugin.id === 'volume-csi')).toBe(true);
    },
  );

  it('has the service range that the network plugin of its file declares', async () => {
    const roles = ['apiserver', 'controllers', 'scheduler'] as const;
    const { facts } = await createPlan(fileOf({ roles, network: 'network-host' }));
    expect(facts.serviceCIDRs).toEqual(['127.96.0.0/16']);
    expect((await createPlan(fileOf({ roles }))).facts.serviceCIDRs).toEqual(['10.96.0.0/16']);
  });
});
