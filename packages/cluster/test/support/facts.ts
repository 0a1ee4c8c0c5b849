import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';

/** Facts that a composition would resolve, for plugins that are tested alone. */
export const clusterFacts: ClusterFacts = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0',
};

const none = () => Promise.reject(new Error('no keys in this test'));
export const clusterKeys: ClusterKeys = {
  caBundle: 'the CA',
  issue: none,
  sign: none,
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};
