import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import plugin from '../src/plugin.ts';

const make = (config: unknown = {}) => {
  const [authorizer] = new PluginHost().add({ plugin, config }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  return authorizer;
};
const master = user('admin', 'system:masters', 'system:authenticated');
const anybody = user('alice', 'system:authenticated', 'dev');

authzContract('authz-masters', () => ({
  authorizer: make(),
  allowed: [
    resourceAttributes(master, 'delete', 'namespaces', '', 'kube-system'),
    resourceAttributes(master, 'escalate', 'clusterroles.rbac.authorization.k8s.io'),
    pathAttributes(master, 'post', '/anything'),
  ],
  noOpinion: [
    resourceAttributes(anybody, 'get', 'pods', 'default', 'a'),
    pathAttributes(anybody, 'get', '/healthz'),
    resourceAttributes(user('system:masters', 'system:authenticated'), 'get', 'pods'),
    resourceAttributes(user('nobody'), 'get', 'pods'),
  ],
}));
authzContract('authz-masters with groups of its own', () => ({
  authorizer: make({ groups: ['dev', 'ops'] }),
  allowed: [resourceAttributes(anybody, 'get', 'secrets', 'kube-system', 'a')],
  noOpinion: [resourceAttributes(master, 'get', 'pods')],
}));
