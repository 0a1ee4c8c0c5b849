import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import { Client } from '@oarlock/spi/client';
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
function open(): { readonly authorizer: Authorizer; dispose(): Promise<void> } {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(pods, pod('p', 'n1'), pod('q', 'n2'));
  const [authorizer] = new PluginHost({ clock }).provide(Client, api.client()).place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  return {
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
const joining = user('system:bootstrap:abcdef', 'system:bootstrappers', 'system:authenticated');
const anybody = user('alice', 'system:authenticated');
const nobody = user('system:anonymous', 'system:unauthenticated');

authzContract('authz-system-roles', () => ({
  ...open(),
  allowed: [
    askPath(nobody, 'get', '/livez'),
    askPath(anybody, 'get', '/version'),
    askPath(nobody, 'get', '/oarlock/v1/ca'),
    askPath(anybody, 'get', '/openapi/v3/apis/apps/v1'),
    askPath(anybody, 'get', '/apis'),
    ask(anybody, 'create', 'selfsubjectaccessreviews.authorization.k8s.io'),
    askPath(joining, 'post', '/oarlock/v1/join'),
    askPath(node, 'post', '/oarlock/v1/spans'),
    ask(node, 'watch', 'pods'),
    ask(node, 'patch', 'nodes/status', '', 'n1'),
    ask(node, 'update', 'leases.coordination.k8s.io', 'kube-node-lease', 'n1'),
    ask(node, 'create', 'serviceaccounts/token', 'd', 'p-account'),
    ask(node, 'update', 'pods/status', 'd', 'p'),
    ask(node, 'delete', 'pods', 'd', 'p'),
    ask(node, 'create', 'nodes'),
    ask(node, 'create', 'leases.coordination.k8s.io', 'kube-node-lease'),
    ...referred.map(([kind, name]) => ask(node, 'watch', kind, 'd', name)),
  ],
  open: [
    askPath(nobody, 'get', '/api'),
    askPath(nobody, 'get', '/metrics'),
    askPath(anybody, 'post', '/version'),
    askPath(anybody, 'get', '/apisx'),
    askPath(anybody, 'get', '/livez/etcd'),
    askPath(anybody, 'post', '/oarlock/v1/join'),
    ask(anybody, 'get', 'pods', 'd', 'p'),
    ask(anybody, 'list', 'secrets'),
    ask(nobody, 'create', 'selfsubjectaccessreviews.authorization.k8s.io'),
    ask(joining, 'get', 'nodes', '', 'n1'),
    ask(joining, 'create', 'nodes'),
    ask(node, 'update', 'pods', 'd', 'p'),
    ask(node, 'create', 'pods/binding', 'd', 'p'),
    ask(node, 'get', 'pods/log', 'd', 'p'),
    ask(node, 'delete', 'nodes', '', 'n2'),
    ask(node, 'update', 'configmaps', 'd', 'c'),
    ...referred.flatMap(([kind, name]) => [
      ask(node, 'list', kind, 'd'),
      ask(node, 'get', kind, 'd', name.replace('p-', 'q-')),
      ask(node, 'get', kind, 'e', name),
      ask(node, 'delete', kind, 'd', name),
      ask(other, 'get', kind, 'd', name),
    ]),
    ask(node, 'list', 'secrets'),
    ask(node, 'create', 'pods', 'd'),
    ask(node, 'delete', 'pods', 'd', 'q'),
    ask(node, 'patch', 'pods/status', 'd', 'q'),
    ask(node, 'deletecollection', 'pods', 'd'),
    ask(node, 'create', 'serviceaccounts/token', 'd', 'q-account'),
    ask(node, 'patch', 'nodes', '', 'n2'),
    ask(node, 'patch', 'nodes/status', '', 'n2'),
    ask(node, 'update', 'leases.coordination.k8s.io', 'kube-node-lease', 'n2'),
    ask(node, 'create', 'leases.coordination.k8s.io', 'kube-system'),
    ask(pretender, 'patch', 'nodes/status', '', 'n1'),
    ask(pretender, 'get', 'secrets', 'd', 'p-env'),
    ask(user('n1', 'system:nodes'), 'patch', 'nodes', '', 'n1'),
    ask(node, 'get', 'leases', 'd', 'l'),
    ask(node, 'get', 'pods.example.com', 'd', 'p'),
    ask(node, 'create', 'serviceaccounts', 'd', 'x'),
    ask(node, 'impersonate', 'users', '', 'admin'),
  ],
}));

describe('authz-system-roles', () => {
  it('does not take a path of a rule for more than it says', () => {
    const { authorizer } = open();
    const allowed = (path: string) => (authorizer.authorize(askPath(anybody, 'get', path)) as { decision: string }).decision === 'allow';
    expect(['/api', '/api/v1', '/apis/apps', '/', '/healthz'].map(allowed)).toEqual([true, true, true, true, true]);
    expect(
      ['', '/Api', '/api%2f', '/healthz/', '/version/x', '/metrics', '/debug/pprof', '/oarlock/v1/traces', '/logs/'].filter(allowed),
    ).toEqual([]);
  });
});
