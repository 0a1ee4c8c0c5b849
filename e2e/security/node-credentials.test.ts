import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { Caller, clientCertificate } from './support/callers.ts';

// An attacker with the client certificate of the kubelet of node-b.
const machine = Machine.use();
let cluster: Cluster;
let nodeB: Caller;
let uid = '';
const tenant = '/api/v1/namespaces/team';
const pod = (name: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'host' }], terminationGracePeriodSeconds: 0, ...spec },
});
const mirror = (name: string, spec: object = {}) => {
  const owner = { apiVersion: 'v1', kind: 'Node', name: 'node-b', uid, controller: true };
  const plain = pod(name, { nodeName: 'node-b', ...spec });
  return { ...plain, metadata: { name, annotations: { 'kubernetes.io/config.mirror': 'x' }, ownerReferences: [owner] } };
};
const named = (apiVersion: string, kind: string, name: string, spec: object) => ({ apiVersion, kind, metadata: { name }, spec });
const slice = (nodeName: string) =>
  named('resource.k8s.io/v1', 'ResourceSlice', `of-${nodeName}`, {
    nodeName,
    driver: 'd.example.com',
    pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
    devices: [],
  });
const merge = (body: object) => ({ body, type: 'application/merge-patch+json' });
const token = (spec: object) => ({ body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec } });

type Attack = readonly [method: string, path: string, options?: { readonly body?: unknown; readonly type?: string }];
const statusOf = async ([method, path, options = {}]: Attack) => (await nodeB.call(method, path, options)).status;
/** Checks that each request is rejected, as forbidden or as invalid. */
async function expectRejected(attacks: readonly Attack[]): Promise<void> {
  const accepted: unknown[] = [];
  for (const attack of attacks) {
    const status = await statusOf(attack);
    if (![400, 403, 422].includes(status)) accepted.push([status, ...attack]);
  }
  expect(accepted).toEqual([]);
}

beforeAll(async () => {
  cluster = await machine.cluster({
    spec: { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] },
  });
  const { kubectl, api } = cluster;
  await kubectl.run(['create', 'namespace', 'team']);
  await kubectl.run(['create', 'serviceaccount', 'robot', '-n', 'team']);
  for (const secret of ['mounted', 'private'])
    await kubectl.run(['create', 'secret', 'generic', secret, '-n', 'team', '--from-literal=a=b']);
  nodeB = new Caller(cluster, await clientCertificate(cluster, 'system:node:node-b', ['system:nodes']));
  const own = await nodeB.call('POST', '/api/v1/nodes', { body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-b' } } });
  uid = (JSON.parse(own.body) as Item).metadata.uid ?? '';
  await api.json('POST', '/api/v1/nodes', { body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } } });
  const volumes = [{ name: 's', secret: { secretName: 'mounted' } }];
  for (const [name, node] of [
    ['mine', 'node-b'],
    ['other', 'node-a'],
  ] as const)
    await api.json('POST', `${tenant}/pods`, { body: pod(name, { serviceAccountName: 'robot', nodeName: node, volumes }) });
  await api.json('POST', `${tenant}/pods`, { body: pod('pending', { serviceAccountName: 'robot' }) });
});
afterAll(() => nodeB.close());

describe('the credentials of a node', () => {
  it('steal no pods of other nodes or of the scheduler', async () => {
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name: 'pending' },
      target: { apiVersion: 'v1', kind: 'Node', name: 'node-b' },
    };
    await expectRejected([
      ['POST', `${tenant}/pods/pending/binding`, { body: binding }],
      ['POST', `${tenant}/bindings`, { body: binding }],
      ['PATCH', `${tenant}/pods/pending`, merge({ spec: { nodeName: 'node-b' } })],
      ['PATCH', `${tenant}/pods/pending/status`, merge({ status: { phase: 'Failed' } })],
      ['PATCH', `${tenant}/pods/other/status`, merge({ status: { phase: 'Failed' } })],
      ['DELETE', `${tenant}/pods/other`],
      ['DELETE', `${tenant}/pods?fieldSelector=spec.nodeName%3Dnode-b`],
      ['POST', `${tenant}/pods/other/eviction`, { body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: 'other' } } }],
      ['PATCH', `${tenant}/pods/mine/ephemeralcontainers`, merge({ spec: { ephemeralContainers: [{ name: 'e', image: 'x' }] } })],
      ['PATCH', `${tenant}/pods/mine/resize`, merge({ spec: { containers: [{ name: 'c', image: 'host' }] } })],
      ...[
        'spec.nodeName!%3Dnode-a',
        'spec.nodeName%3Dnode-a',
        'spec.nodeName%3Dnode-b,spec.nodeName%3Dnode-a',
        'status.phase%3DPending',
        '',
      ].map((selector): Attack => ['GET', `/api/v1/pods?fieldSelector=${selector}`]),
      ['GET', `${tenant}/pods/other/log`],
      ['POST', `${tenant}/pods/other/exec?command=id`],
      ['GET', '/api/v1/nodes/node-a/proxy/pods'],
    ]);
  });

  it('reach nothing through pods that the node writes', async () => {
    const secret = { secretRef: { name: 'private' } };
    const specs: readonly object[] = [
      { serviceAccountName: 'robot' },
      { imagePullSecrets: [{ name: 'private' }] },
      { containers: [{ name: 'c', image: 'x', envFrom: [secret] }] },
      { initContainers: [{ name: 'i', image: 'x', env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'private', key: 'a' } } }] }] },
      { containers: [{ name: 'c', image: 'x', envFrom: [{ configMapRef: { name: 'x' } }] }] },
      { resourceClaims: [{ name: 'r', resourceClaimName: 'x' }] },
      ...[
        { secret: { secretName: 'private' } },
        { configMap: { name: 'x' } },
        { persistentVolumeClaim: { claimName: 'x' } },
        { projected: { sources: [{ secret: { name: 'private' } }] } },
        { projected: { sources: [{ serviceAccountToken: { path: 'x' } }] } },
        { csi: { driver: 'd.example.com', nodePublishSecretRef: { name: 'private' } } },
        { iscsi: { targetPortal: '1.2.3.4', iqn: 'iqn.2016-04.test:x', lun: 0, ...secret } },
        { azureFile: { secretName: 'private', shareName: 'x' } },
        { cephfs: { monitors: ['x'], ...secret } },
        { flexVolume: { driver: 'a/b', ...secret } },
        { ephemeral: { volumeClaimTemplate: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } } } },
      ].map((source) => ({ volumes: [{ name: 'v', ...source }] })),
    ];
    await expectRejected([
      ...specs.map((spec, index): Attack => ['POST', `${tenant}/pods`, { body: mirror(`m${index}`, spec) }]),
      ['POST', `${tenant}/pods`, { body: { ...mirror('m'), spec: { ...mirror('m').spec, nodeName: 'node-a' } } }],
      ['POST', `${tenant}/pods`, { body: pod('plain', { nodeName: 'node-b' }) }],
    ]);
    expect(await statusOf(['POST', `${tenant}/pods`, { body: mirror('static') }])).toBe(201);
    const { metadata } = await cluster.api.get<Item>(`${tenant}/pods/static`);
    const bound = { boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'static', uid: metadata.uid } };
    await expectRejected([
      // without the annotation, the pod would refer to the service account `default`
      ['PATCH', `${tenant}/pods/static/status`, merge({ metadata: { annotations: { 'kubernetes.io/config.mirror': null } } })],
      ['POST', `${tenant}/serviceaccounts/default/token`, token(bound)],
      ['POST', `${tenant}/serviceaccounts/robot/token`, token(bound)],
    ]);
  });

  it('change no more of its pods than their status', async () => {
    const claims = [{ name: 'r', resourceClaimName: 'foreign' }];
    await expectRejected([
      ['PATCH', `${tenant}/pods/mine/status`, merge({ metadata: { labels: { app: 'x' } } })],
      ['PATCH', `${tenant}/pods/mine/status`, merge({ status: { resourceClaimStatuses: claims } })],
      [
        'PATCH',
        `${tenant}/pods/mine/status`,
        merge({ status: { extendedResourceClaimStatus: { resourceClaimName: 'foreign', requestMappings: [] } } }),
      ],
      ['PATCH', `${tenant}/pods/mine`, merge({ metadata: { labels: { app: 'x' } } })],
    ]);
    const owners = [{ apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'x' }];
    const spec = { volumes: [{ name: 's', secret: { secretName: 'private' } }], serviceAccountName: 'default' };
    await nodeB.call(
      'PATCH',
      `${tenant}/pods/mine/status`,
      merge({ metadata: { ownerReferences: owners }, spec, status: { message: 'x' } }),
    );
    const mine = await cluster.api.get<Item & { readonly spec: { readonly serviceAccountName: string } }>(`${tenant}/pods/mine`);
    expect([mine.metadata.ownerReferences, mine.spec.serviceAccountName]).toEqual([undefined, 'robot']);
    expect(JSON.stringify(mine.spec)).not.toContain('private');
  });

  it('get tokens of no pod of another node, and for no audience of their choice', async () => {
    const uidOf = async (name: string) => (await cluster.api.get<Item>(`${tenant}/pods/${name}`)).metadata.uid;
    const path = `${tenant}/serviceaccounts/robot/token`;
    const bound = (name: string, podUid: string | undefined) => ({ boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid: podUid } });
    const mine = bound('mine', await uidOf('mine'));
    await expectRejected([
      ['POST', path, token(bound('other', await uidOf('other')))],
      ['POST', path, token(bound('mine', await uidOf('other')))],
      ['POST', path, token(bound('mine', undefined))],
      ['POST', path, token({})],
      ['POST', path, token({ boundObjectRef: { apiVersion: 'v1', kind: 'Secret', name: 'mounted' } })],
      ['POST', path, token({ boundObjectRef: { apiVersion: 'v1', kind: 'Node', name: 'node-a' } })],
      ['POST', path, token({ ...mine, audiences: ['vault'] })],
      ['POST', `${tenant}/serviceaccounts/default/token`, token(mine)],
      ['POST', '/api/v1/namespaces/kube-system/serviceaccounts/default/token', token(mine)],
    ]);
    expect(await statusOf(['POST', path, token(mine)])).toBe(201);
  });

  it('read only the secrets of its pods', async () => {
    const one = (name: string) => `${tenant}/secrets?fieldSelector=metadata.name%3D${name}`;
    await expectRejected([
      ['GET', `${tenant}/secrets/private`],
      ['GET', one('private')],
      ['GET', `${one('private')}&watch=true`],
      ['GET', `${tenant}/secrets?fieldSelector=metadata.name!%3Dx`],
      ['PUT', `${tenant}/secrets/mounted`, { body: { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'mounted' } } }],
      ['GET', '/api/v1/namespaces/kube-system/secrets'],
      ['GET', '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication'],
      ['GET', `${tenant}/serviceaccounts/default`],
    ]);
    expect(await statusOf(['GET', `${tenant}/secrets/mounted`])).toBe(200);
    const both = await nodeB.call('GET', one('mounted,metadata.name%3Dprivate'));
    expect((JSON.parse(both.body) as { readonly items: unknown }).items).toEqual([]);
  });

  it('write only the objects of its own node', async () => {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const lease = (name: string) => ({ body: named('coordination.k8s.io/v1', 'Lease', name, { holderIdentity: 'x' }) });
    const csiNodes = '/apis/storage.k8s.io/v1/csinodes';
    const slices = '/apis/resource.k8s.io/v1/resourceslices';
    await cluster.api.json('POST', slices, { body: slice('node-a') });
    const dns = '/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices';
    await expectRejected([
      ['POST', leases, lease('node-a')],
      ['POST', leases, { body: { ...lease('x').body, metadata: { generateName: 'node-b' } } }],
      ['POST', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases', lease('node-b')],
      ['POST', csiNodes, { body: named('storage.k8s.io/v1', 'CSINode', 'node-a', { drivers: [] }) }],
      ['GET', `${csiNodes}/node-a`],
      ['POST', slices, { body: slice('node-a') }],
      ['DELETE', `${slices}/of-node-a`],
      ['DELETE', `${slices}?fieldSelector=spec.nodeName%3Dnode-a`],
      ['DELETE', slices],
      ['GET', slices],
      ['PATCH', '/api/v1/nodes/node-a/status', merge({ status: { phase: 'x' } })],
      ['PATCH', '/api/v1/nodes/node-b', merge({ spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } })],
      ['PATCH', '/api/v1/nodes/node-b', merge({ metadata: { labels: { 'node-restriction.kubernetes.io/a': 'b' } } })],
      ['PATCH', '/api/v1/nodes/node-b/status', merge({ metadata: { labels: { 'node-role.kubernetes.io/control-plane': '' } } })],
      ['PATCH', '/api/v1/nodes/node-b', merge({ metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'y' }] } })],
      ['DELETE', '/api/v1/nodes/node-b'],
      ['POST', '/api/v1/nodes', { body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-c' } } }],
      [
        'POST',
        '/api/v1/persistentvolumes',
        {
          body: named('v1', 'PersistentVolume', 'p', {
            csi: { driver: 'x', volumeHandle: 'y', nodePublishSecretRef: { name: 'private', namespace: 'team' } },
          }),
        },
      ],
      [
        'POST',
        dns,
        {
          body: {
            apiVersion: 'discovery.k8s.io/v1',
            kind: 'EndpointSlice',
            metadata: { name: 'kube-dns-node-a', labels: { 'kubernetes.io/service-name': 'kube-dns' } },
            addressType: 'IPv4',
            endpoints: [],
          },
        },
      ],
    ]);
    expect(await statusOf(['POST', slices, { body: slice('node-b') }])).toBe(201);
    await expectRejected([['PATCH', `${slices}/of-node-b`, merge({ spec: { nodeName: 'node-a' } })]]);
    expect(await statusOf(['POST', leases, lease('node-b')])).toBe(201);
  });
});
