import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, noCredentials } from '@oarlock/spi/authn/contract';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const basic = (text: string) => noCredentials('/api', { headers: { authorization: `Basic ${Buffer.from(text).toString('base64')}` } });
async function open(content = 'correct-horse,ada,u1,"devs,ops"\nbattery:staple,bob\n') {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-basic-'));
  const file = join(directory, 'users.csv');
  await writeFile(file, content);
  const host = new PluginHost().add({ plugin, config: { file } });
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  await host.start();
  return { authenticator, dispose: () => rm(directory, { recursive: true }) };
}

authnContract('authn-basic-password', async () => ({
  ...(await open()),
  known: [
    {
      title: 'with groups',
      credentials: basic('ada:correct-horse'),
      identity: { name: 'ada', uid: 'u1', groups: ['devs', 'ops', 'system:authenticated'] },
    },
    {
      title: 'a password with a colon',
      credentials: basic('bob:battery:staple'),
      identity: { name: 'bob', groups: ['system:authenticated'] },
    },
  ],
  invalid: [
    { title: 'another password', credentials: basic('ada:wrong') },
    { title: 'the password of another user', credentials: basic('ada:battery:staple') },
    { title: 'an empty password', credentials: basic('ada:') },
    { title: 'an unknown user', credentials: basic('eve:correct-horse') },
    { title: 'no colon', credentials: basic('ada') },
    { title: 'a property of objects', credentials: basic('__proto__:x') },
  ],
  secrets: ['correct-horse', 'battery:staple'],
}));

describe('the password file', () => {
  it('is rejected with the number of an invalid line', async () => {
    await expect(open('x,y\nonly-a-password\n')).rejects.toThrow(/users\.csv:2: a line is/);
  });
});
