import { persistentVolumes, pods, resourceSlices } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const pod = (name: string, nodeName: string, more: Partial<Pod['spec']> = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name },
  spec: {
    nodeName,
    serviceAccountName: `${name}-account`,
    imagePullSecrets: [{ name: `${name}-pull` }],
    containers: [
      {
        name: 'main',
        image: 'x',
        env: [{ name: 'A', valueFrom: { secretKeyRef: { name: `${name}-env`, key: 'k' } } }],
        envFrom: [{ configMapRef: { name: `${name}-all` } }],
      },
    ],
    resourceClaims: [{ name: 'device', resourceClaimName: `${name}-device` }],
    initContainers: [{ name: 'first', image: 'x', envFrom: [{ secretRef: { name: `${name}-init` } }] }],
    volumes: [
      { name: 'a', secret: { secretName: `${name}-volume` } },
      { name: 'b', persistentVolumeClaim: { claimName: `${name}-claim` } },
      { name: 'c', ephemeral: {} },
      { name: 'd', projected: { sources: [{ configMap: { name: `${name}-projected` } }, { secret: { name: `${name}-projected` } }] } },
    ],
    ...more,
  },
});
const volume = (name: string, claim: string) => ({
  metadata: { name },
  spec: {
    claimRef: { namespace: 'd', name: claim },
    csi: { driver: 'x', volumeHandle: name, nodeStageSecretRef: { namespace: 'csi', name: `${name}-stage` } },
  },
});
async function open() {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(pods, pod('p', 'n1'), pod('q', 'n2'), {
    ...pod('m', 'n1'),
    metadata: { namespace: 'd', name: 'm', annotations: { 'kubernetes.io/config.mirror': 'x' } },
  });
  api.seed(persistentVolumes, volume('p-pv', 'p-claim'), volume('q-pv', 'q-claim'));
  api.seed(resourceSlices, {
    metadata: { name: 's1' },
    spec: { driver: 'd', nodeName: 'n1', pool: { name: 'a', generation: 1, resourceSliceCount: 1 } },
  });
  const [authorizer] = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers).add({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await clock.settle();
  return {
    api,
    clock,
    authorizer,
    dispose: async () => {
      await api.stop();
    },
  };
}
const referred = [
  'secrets p-pull',
  'secrets p-env',
  'secrets p-init',
  'secrets p-volume',
  'secrets p-projected',
  'configmaps p-all',
  'configmaps p-projected',
  'persistentvolumeclaims p-claim',
  'persistentvolumeclaims p-c',
].map((text) => text.split(' ') as [string, string]);
const node = user('system:node:n1', 'system:nodes', 'system:authenticated');
const other = user('system:node:n2', 'system:nodes', 'system:authenticated');
const pretender = user('system:node:n1', 'system:authenticated');
const own = (verb: string, what: string) => ({ ...resourceAttributes(node, verb, what), fieldSelector: 'spec.nodeName=n1' });
const verbs = (kind: string) => (kind === 'persistentvolumeclaims' ? 'get' : 'watch');

authzContract('authz-node', async () => ({
  ...(await open()),
  allowed: [
    resourceAttributes(node, 'get', 'nodes', '', 'n1'),
    resourceAttributes(node, 'watch', 'nodes', '', 'n1'),
    resourceAttributes(node, 'create', 'nodes'),
    resourceAttributes(node, 'patch', 'nodes/status', '', 'n1'),
    own('list', 'pods'),
    own('watch', 'pods'),
    resourceAttributes(node, 'get', 'pods', 'd', 'p'),
    resourceAttributes(node, 'create', 'pods', 'd'),
    resourceAttributes(node, 'delete', 'pods', 'd', 'p'),
    resourceAttributes(node, 'update', 'pods/status', 'd', 'p'),
    resourceAttributes(node, 'create', 'pods/eviction', 'd', 'p'),
    resourceAttributes(node, 'update', 'leases.coordination.k8s.io', 'kube-node-lease', 'n1'),
    resourceAttributes(node, 'create', 'leases.coordination.k8s.io', 'kube-node-lease'),
    resourceAttributes(node, 'create', 'serviceaccounts/token', 'd', 'p-account'),
    resourceAttributes(node, 'get', 'serviceaccounts', 'd', 'p-account'),
    resourceAttributes(node, 'get', 'persistentvolumes', '', 'p-pv'),
    resourceAttributes(node, 'get', 'secrets', 'csi', 'p-pv-stage'),
    resourceAttributes(node, 'update', 'csinodes.storage.k8s.io', '', 'n1'),
    resourceAttributes(node, 'create', 'csinodes.storage.k8s.io'),
    resourceAttributes(node, 'update', 'resourceslices.resource.k8s.io', '', 's1'),
    own('deletecollection', 'resourceslices.resource.k8s.io'),
    resourceAttributes(node, 'list', 'services'),
    resourceAttributes(node, 'watch', 'csidrivers.storage.k8s.io'),
    resourceAttributes(node, 'create', 'events', 'd'),
    resourceAttributes(node, 'create', 'certificatesigningrequests.certificates.k8s.io'),
    resourceAttributes(node, 'create', 'subjectaccessreviews.authorization.k8s.io'),
    resourceAttributes(node, 'get', 'resourceclaims.resource.k8s.io', 'd', 'p-device'),
    ...referred.map(([kind, name]) => resourceAttributes(node, verbs(kind), kind, 'd', name)),
  ],
  noOpinion: [
    resourceAttributes(node, 'get', 'nodes', '', 'n2'),
    resourceAttributes(node, 'list', 'nodes'),
    resourceAttributes(node, 'delete', 'nodes', '', 'n1'),
    resourceAttributes(node, 'list', 'pods'),
    { ...resourceAttributes(node, 'list', 'pods'), fieldSelector: 'spec.nodeName=n2' },
    { ...resourceAttributes(node, 'list', 'pods'), fieldSelector: 'spec.nodeName!=n1' },
    { ...resourceAttributes(node, 'list', 'pods'), fieldSelector: '((' },
    resourceAttributes(node, 'get', 'pods', 'd', 'q'),
    resourceAttributes(node, 'update', 'pods', 'd', 'p'),
    resourceAttributes(node, 'create', 'pods/binding', 'd', 'p'),
    resourceAttributes(node, 'get', 'pods/log', 'd', 'p'),
    resourceAttributes(node, 'get', 'pods/exec', 'd', 'p'),
    resourceAttributes(node, 'update', 'configmaps', 'd', 'c'),
    resourceAttributes(node, 'get', 'persistentvolumes', '', 'q-pv'),
    resourceAttributes(node, 'get', 'secrets', 'csi', 'q-pv-stage'),
    resourceAttributes(node, 'list', 'persistentvolumes'),
    resourceAttributes(node, 'get', 'serviceaccounts', 'd', 'q-account'),
    resourceAttributes(node, 'create', 'serviceaccounts/token', 'd', 'q-account'),
    resourceAttributes(node, 'get', 'secrets', 'd', 'm-env'),
    resourceAttributes(node, 'update', 'csinodes.storage.k8s.io', '', 'n2'),
    resourceAttributes(node, 'list', 'resourceslices.resource.k8s.io'),
    ...['get', 'update', 'patch', 'delete'].map((verb) => resourceAttributes(other, verb, 'resourceslices.resource.k8s.io', '', 's1')),
    ...['list', 'watch', 'deletecollection'].flatMap((verb) =>
      ['spec.nodeName=n2', 'spec.nodeName!=n2', 'spec.nodeName=', 'spec.driver=d'].map((fieldSelector) => ({
        ...resourceAttributes(node, verb, 'resourceslices.resource.k8s.io'),
        fieldSelector,
      })),
    ),
    ...['get', 'list', 'create', 'update', 'patch', 'delete'].flatMap((verb) => [
      resourceAttributes(node, verb, 'deviceclasses.resource.k8s.io', '', 'c'),
      resourceAttributes(node, verb, 'devicetaintrules.resource.k8s.io', '', 't'),
      resourceAttributes(node, verb, 'resourceclaimtemplates.resource.k8s.io', 'd', 't'),
      resourceAttributes(node, verb, 'resourceclaims.resource.k8s.io', 'd', 'q-device'),
    ]),
    ...['list', 'create', 'update', 'patch', 'delete'].map((verb) =>
      resourceAttributes(node, verb, 'resourceclaims.resource.k8s.io', 'd', 'p-device'),
    ),
    ...['get', 'update', 'patch'].map((verb) => resourceAttributes(node, verb, 'resourceclaims/status.resource.k8s.io', 'd', 'p-device')),
    ...['update', 'patch'].map((verb) => resourceAttributes(node, verb, 'resourceclaims/binding.resource.k8s.io')),
    ...['associated-node:update', 'arbitrary-node:update'].map((verb) =>
      resourceAttributes(node, verb, 'resourceclaims/driver.resource.k8s.io', 'd', 'driver.example.com'),
    ),
    resourceAttributes(node, 'update', 'leases.coordination.k8s.io', 'kube-node-lease', 'n2'),
    resourceAttributes(node, 'create', 'leases.coordination.k8s.io', 'kube-system'),
    resourceAttributes(node, 'list', 'secrets'),
    resourceAttributes(node, 'impersonate', 'users', '', 'admin'),
    resourceAttributes(node, 'create', 'clusterrolebindings.rbac.authorization.k8s.io'),
    resourceAttributes(pretender, 'patch', 'nodes/status', '', 'n1'),
    resourceAttributes(pretender, 'get', 'secrets', 'd', 'p-env'),
    resourceAttributes(user('n1', 'system:nodes'), 'get', 'nodes', '', 'n1'),
    resourceAttributes(user('system:node:', 'system:nodes'), 'create', 'nodes'),
    ...referred.flatMap(([kind, name]) => [
      resourceAttributes(node, 'list', kind, 'd'),
      resourceAttributes(node, 'get', kind, 'd', name.replace('p-', 'q-')),
      resourceAttributes(node, 'get', kind, 'e', name),
      resourceAttributes(node, 'delete', kind, 'd', name),
      resourceAttributes(other, 'get', kind, 'd', name),
    ]),
  ],
}));

describe('authz-node', () => {
  it('updates its decisions when pods and volumes are created and deleted', async () => {
    const { api, clock, authorizer, dispose } = await open();
    const may = async (name: string, kind = 'secrets') =>
      (await authorizer.authorize(resourceAttributes(node, 'get', kind, kind === 'secrets' ? 'd' : '', name))).decision === 'allow';
    api.seed(pods, { ...pod('late', 'n1'), metadata: { namespace: 'd', name: 'late' } });
    expect(await may('late-env'), 'read from the API before the informer delivers the pod').toBe(true);
    await clock.settle();
    expect(await may('late-env')).toBe(true);
    api.remove(pods, { namespace: 'd', name: 'late' });
    await clock.settle();
    expect(await may('late-env')).toBe(false);
    expect(await may('p-pv', 'persistentvolumes')).toBe(true);
    api.remove(pods, { namespace: 'd', name: 'p' });
    await clock.settle();
    expect(await may('p-pv', 'persistentvolumes')).toBe(false);
    expect(await may('p-env')).toBe(false);
    await dispose();
  });

  it('sends no API requests for objects in the graph', async () => {
    const { api, authorizer, dispose } = await open();
    api.requests.length = 0;
    for (const [kind, name] of referred)
      expect(authorizer.authorize(resourceAttributes(node, 'get', kind, 'd', name))).toBeInstanceOf(Promise);
    await Promise.resolve();
    expect(api.requests).toEqual([]);
    await dispose();
  });
});

describe('the reason', () => {
  it.each([
    ['for a list of secrets', resourceAttributes(node, 'list', 'secrets', 'd'), 'No Object name found'],
    ['for secrets of all namespaces', resourceAttributes(node, 'list', 'secrets'), 'can only read namespaced object of this type'],
    [
      'for leases of another namespace',
      resourceAttributes(node, 'create', 'leases.coordination.k8s.io', 'd'),
      'can only access leases in the "kube-node-lease" system namespace',
    ],
    [
      'for the lease of another node',
      resourceAttributes(node, 'get', 'leases.coordination.k8s.io', 'kube-node-lease', 'n2'),
      'can only access node lease with the same name as the requesting node',
    ],
    [
      'for a list of leases',
      resourceAttributes(node, 'list', 'leases.coordination.k8s.io', 'kube-node-lease'),
      'can only get, create, update, patch, or delete a node lease',
    ],
  ])('%s is that of upstream', async (_, attributes, reason) => {
    const { authorizer, dispose } = await open();
    expect(await authorizer.authorize(attributes)).toEqual({ decision: 'no-opinion', reason });
    await dispose();
  });
});
