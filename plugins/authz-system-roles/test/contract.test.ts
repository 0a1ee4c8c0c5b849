import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const make = (): Authorizer => {
  const [authorizer] = new PluginHost().place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  return authorizer;
};
const node = user('system:node:n1', 'system:nodes', 'system:authenticated');
const joining = user('system:bootstrap:abcdef', 'system:bootstrappers', 'system:authenticated');
const anybody = user('alice', 'system:authenticated');
const nobody = user('system:anonymous', 'system:unauthenticated');

authzContract('authz-system-roles', () => ({
  authorizer: make(),
  allowed: [
    askPath(nobody, 'get', '/livez'), askPath(anybody, 'get', '/version'), askPath(nobody, 'get', '/oarlock/v1/ca'), askPath(anybody, 'get', '/openapi/v3/apis/apps/v1'), askPath(anybody, 'get', '/apis'),
    ask(anybody, 'create', 'selfsubjectaccessreviews.authorization.k8s.io'), askPath(joining, 'post', '/oarlock/v1/join'), askPath(node, 'post', '/oarlock/v1/spans'),
    ask(node, 'watch', 'pods'), ask(node, 'patch', 'nodes/status', '', 'n1'), ask(node, 'update', 'leases.coordination.k8s.io', 'kube-node-lease', 'n1'), ask(node, 'create', 'serviceaccounts/token', 'd', 'default'), ask(node, 'update', 'pods/status', 'd', 'p'),
  ],
  open: [
    askPath(nobody, 'get', '/api'), askPath(nobody, 'get', '/metrics'), askPath(anybody, 'post', '/version'), askPath(anybody, 'get', '/apisx'), askPath(anybody, 'get', '/livez/etcd'), askPath(anybody, 'post', '/oarlock/v1/join'),
    ask(anybody, 'get', 'pods', 'd', 'p'), ask(anybody, 'list', 'secrets'), ask(nobody, 'create', 'selfsubjectaccessreviews.authorization.k8s.io'),
    ask(joining, 'get', 'nodes', '', 'n1'), ask(joining, 'create', 'nodes'),
    ask(node, 'update', 'pods', 'd', 'p'), ask(node, 'create', 'pods/binding', 'd', 'p'), ask(node, 'get', 'pods/log', 'd', 'p'), ask(node, 'delete', 'nodes', '', 'n2'), ask(node, 'update', 'configmaps', 'd', 'c'),
    ask(node, 'get', 'leases', 'd', 'l'), ask(node, 'get', 'pods.example.com', 'd', 'p'), ask(node, 'create', 'serviceaccounts', 'd', 'x'), ask(node, 'impersonate', 'users', '', 'admin'),
  ],
}));

describe('authz-system-roles', () => {
  it('does not take a path of a rule for more than it says', () => {
    const authorizer = make();
    const allowed = (path: string) => (authorizer.authorize(askPath(anybody, 'get', path)) as { decision: string }).decision === 'allow';
    expect(['/api', '/api/v1', '/apis/apps', '/', '/healthz'].map(allowed)).toEqual([true, true, true, true, true]);
    expect(['', '/Api', '/api%2f', '/healthz/', '/version/x', '/metrics', '/debug/pprof', '/oarlock/v1/traces', '/logs/'].filter(allowed)).toEqual([]);
  });
});
