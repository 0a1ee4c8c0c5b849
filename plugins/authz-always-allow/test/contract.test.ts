import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import plugin from '../src/plugin.ts';

authzContract('authz-always-allow', () => {
  const [authorizer] = new PluginHost().add({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  const anybody = user('ada', 'system:authenticated');
  return {
    authorizer,
    allowed: [
      resourceAttributes(anybody, 'delete', 'nodes'),
      resourceAttributes(anybody, 'escalate', 'clusterroles.rbac.authorization.k8s.io'),
      pathAttributes(user('system:anonymous', 'system:unauthenticated'), 'get', '/metrics'),
    ],
    noOpinion: [resourceAttributes(user('nobody'), 'get', 'pods')],
  };
});
