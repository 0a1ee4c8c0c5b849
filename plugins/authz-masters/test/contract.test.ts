import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import plugin from '../src/plugin.ts';

const make = (config: unknown = {}) => {
  const [authorizer] = new PluginHost().place({ plugin, config }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  return authorizer;
};
const master = user('admin', 'system:masters', 'system:authenticated');
const anybody = user('alice', 'system:authenticated', 'dev');

authzContract('authz-masters', () => ({
  authorizer: make(),
  allowed: [
    ask(master, 'delete', 'namespaces', '', 'kube-system'),
    ask(master, 'escalate', 'clusterroles.rbac.authorization.k8s.io'),
    askPath(master, 'post', '/anything'),
  ],
  open: [
    ask(anybody, 'get', 'pods', 'default', 'a'),
    askPath(anybody, 'get', '/healthz'),
    ask(user('system:masters', 'system:authenticated'), 'get', 'pods'),
    ask(user('nobody'), 'get', 'pods'),
  ],
}));
authzContract('authz-masters with groups of its own', () => ({
  authorizer: make({ groups: ['dev', 'ops'] }),
  allowed: [ask(anybody, 'get', 'secrets', 'kube-system', 'a')],
  open: [ask(master, 'get', 'pods')],
}));
