import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import plugin from '../src/plugin.ts';

authzContract('authz-always-deny', () => {
  const [authorizer] = new PluginHost().add({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  const admin = user('admin', 'system:masters');
  return {
    authorizer,
    allowed: [],
    noOpinion: [],
    denied: [resourceAttributes(admin, 'get', 'pods'), pathAttributes(admin, 'get', '/livez')],
  };
});
