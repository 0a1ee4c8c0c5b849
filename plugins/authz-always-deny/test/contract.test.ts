import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import plugin from '../src/plugin.ts';

authzContract('authz-always-deny', () => {
  const [authorizer] = new PluginHost().place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  const admin = user('admin', 'system:masters');
  return { authorizer, allowed: [], open: [], denied: [ask(admin, 'get', 'pods'), askPath(admin, 'get', '/livez')] };
});
