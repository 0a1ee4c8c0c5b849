import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { planWarnings } from '@oarlock/cluster/composition/check-plan';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { missingPartFaults } from '@oarlock/cluster/composition/missing-parts';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import { describe, expect, it } from 'vitest';

/** A composition with every part; the tests remove parts from it. */
const whole = {
  storage: 'storage-memory',
  runtimes: ['runtime-docker'],
  network: 'network-bridge',
  policy: 'policy-nftables',
  volumes: ['volume-csi'],
  proxy: 'proxy-nftables',
  dns: 'dns-server',
};
const planOf = (spec: object) =>
  createPlan(
    parseClusterFile(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { ...whole, ...spec } }), 'cluster.yaml'),
  );
const warningsOf = async (spec: object) => planWarnings(await planOf(spec));
const none = undefined;

it.each(readyCompositions())('the ready composition %s misses nothing', async (name) => {
  const plan = await createPlan(await readClusterFile(name));
  expect({ warnings: planWarnings(plan), faults: missingPartFaults(plan) }).toEqual({ warnings: [], faults: [] });
});

it('a kubelet without a runtime is an error', async () => {
  expect(missingPartFaults(await planOf({ runtimes: [] }))).toMatchObject([{ code: 'SlotEmpty', path: 'spec.runtimes' }]);
  expect(missingPartFaults(await planOf({ runtimes: [], roles: ['apiserver', 'controllers', 'scheduler'] }))).toEqual([]);
});

describe('a warning names the key, the effect and the remedy of', () => {
  it.each([
    ['network', { network: none }, /only pods with hostNetwork start: .*`network: network-bridge`/],
    ['proxy', { proxy: none, dns: none, network: 'network-host' }, /Services and their node ports cannot be reached: .*`proxy: /],
    ['dns', { dns: none }, /names do not resolve in pods: set `dns: dns-server`/],
    ['policy', { policy: none }, /NetworkPolicies are accepted and not enforced: set `policy: policy-nftables`/],
    ['volumes', { volumes: [] }, /PersistentVolumeClaims stay Pending: set `volumes: \[volume-csi\]`/],
    ['roles', { roles: ['apiserver', 'scheduler', 'kubelet', 'proxy'] }, /their pods are rejected: add controllers/],
    ['roles', { roles: ['apiserver', 'controllers', 'kubelet', 'proxy'] }, /pods stay Pending: add scheduler/],
    [
      'authn',
      { authn: ['authn-service-account', 'authn-anonymous'] },
      /client certificates are not accepted.*: add authn-client-certificate/,
    ],
    ['authn', { authn: ['authn-client-certificate'] }, /mounts tokens .* that no authenticator accepts: add authn-service-account/],
    ['authz', { authz: ['authz-masters', 'authz-rbac'] }, /their nodes do not register: add authz-node/],
    ['admission', { admission: ['admission-namespace-lifecycle'] }, /permits each node to write .*: add admission-node-restriction/],
  ])('%s missing in %j', async (key, spec, text) => {
    const warnings = await warningsOf(spec);
    expect(warnings).toEqual([expect.stringMatching(text)]);
    expect(warnings[0]).toMatch(new RegExp(`^spec\\.${key}: `));
  });

  it('a DNS server without a proxy, beside that of the proxy', async () => {
    expect(await warningsOf({ proxy: none })).toEqual([
      expect.stringMatching(/^spec\.proxy: nothing routes the addresses of Services/),
      expect.stringMatching(/^spec\.proxy: .*names do not resolve in pods: configure a proxy, or remove dns$/),
    ]);
  });
});

describe('no warning is given', () => {
  it.each([
    ['for a composition with every part', {}],
    ['for simulated pods', { runtimes: ['runtime-simulated'], network: none, policy: none, volumes: [], proxy: none, dns: none }],
    ['for pods in the network of the node', { network: 'network-host', proxy: 'proxy-userspace', policy: none, dns: none }],
    ['for a control plane, whose nodes are other processes', { ...whole, roles: ['apiserver', 'controllers', 'scheduler'], runtimes: [] }],
    ['for an API server alone', { roles: ['apiserver'], volumes: [] }],
    ['for a node, whose control plane is another process', { roles: ['kubelet', 'proxy'] }],
    [
      'for tokens that a webhook may accept',
      { authn: ['authn-client-certificate', { use: 'authn-webhook', config: { kubeconfigFile: 'k' } }] },
    ],
    ['for nodes that a webhook may authorize', { authz: ['authz-masters', { use: 'authz-webhook', config: { kubeconfigFile: 'k' } }] }],
  ])('%s', async (_, spec) => {
    expect(await warningsOf(spec)).toEqual([]);
  });
});
