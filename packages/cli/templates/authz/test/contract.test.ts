import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
import plugin from '../src/plugin.ts';

const member = user('ada', 'readers');

authzContract('__ID__', () => {
  const [authorizer] = new PluginHost().place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('the plugin was not created');
  return {
    authorizer,
    allowed: [ask(member, 'get', 'pods', 'default', 'web'), ask(member, 'list', 'deployments.apps'), ask(member, 'watch', 'nodes')],
    open: [
      ask(member, 'get', 'secrets', 'default', 'password'),
      ask(member, 'delete', 'pods', 'default', 'web'),
      ask(user('bob'), 'get', 'pods', 'default', 'web'),
      askPath(member, 'get', '/metrics'),
    ],
  };
});
