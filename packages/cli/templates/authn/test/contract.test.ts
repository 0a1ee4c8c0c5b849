import { createHash } from 'node:crypto';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import plugin from '../src/plugin.ts';

const token = 'correct-horse-battery-staple';
const sha256 = createHash('sha256').update(token).digest('hex');

authnContract('__ID__', async () => {
  const host = new PluginHost().add({ plugin, config: { users: [{ sha256, name: 'ada', groups: ['dev'] }] } });
  await host.start();
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('the plugin was not created');
  return {
    authenticator,
    known: [{ title: 'ada', credentials: bearerCredentials(token), identity: { name: 'ada', groups: ['dev', 'system:authenticated'] } }],
    invalid: [
      { title: 'a name for a token', credentials: bearerCredentials('ada') },
      { title: 'the hash for the token', credentials: bearerCredentials(sha256) },
    ],
    secrets: [token],
    dispose: () => host.stop(),
  };
});
