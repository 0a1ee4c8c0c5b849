import { createHash } from 'node:crypto';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearer } from '@oarlock/spi/authn.contract';
import plugin from '../src/plugin.ts';

const token = 'correct-horse-battery-staple';
const sha256 = createHash('sha256').update(token).digest('hex');

authnContract('__ID__', async () => {
  const host = new PluginHost().place({ plugin, config: { users: [{ sha256, name: 'ada', groups: ['dev'] }] } });
  await host.start();
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('the plugin was not created');
  return {
    authenticator,
    known: [{ title: 'ada', credentials: bearer(token), identity: { name: 'ada', groups: ['dev', 'system:authenticated'] } }],
    wrong: [
      { title: 'a name for a token', credentials: bearer('ada') },
      { title: 'the hash for the token', credentials: bearer(sha256) },
    ],
    secrets: [token],
    dispose: () => host.stop(),
  };
});
