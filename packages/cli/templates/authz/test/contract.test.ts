import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import plugin from '../src/plugin.ts';

const member = user('ada', 'readers');

authzContract('__ID__', () => {
  const [authorizer] = new PluginHost().add({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('the plugin was not created');
  return {
    authorizer,
    allowed: [
      resourceAttributes(member, 'get', 'pods', 'default', 'web'),
      resourceAttributes(member, 'list', 'deployments.apps'),
      resourceAttributes(member, 'watch', 'nodes'),
    ],
    noOpinion: [
      resourceAttributes(member, 'get', 'secrets', 'default', 'password'),
      resourceAttributes(member, 'delete', 'pods', 'default', 'web'),
      resourceAttributes(user('bob'), 'get', 'pods', 'default', 'web'),
      pathAttributes(member, 'get', '/metrics'),
    ],
  };
});
