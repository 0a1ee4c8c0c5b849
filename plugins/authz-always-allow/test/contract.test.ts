import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import plugin from '../src/plugin.ts';

authzContract('authz-always-allow', () => {
  const [authorizer] = new PluginHost().place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  const anybody = user('ada', 'system:authenticated');
  return {
    authorizer,
    allowed: [
      ask(anybody, 'delete', 'nodes'),
      ask(anybody, 'escalate', 'clusterroles.rbac.authorization.k8s.io'),
      askPath(user('system:anonymous', 'system:unauthenticated'), 'get', '/metrics'),
    ],
    open: [ask(user('nobody'), 'get', 'pods')],
  };
});
