import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const alice = 'a1b2c3d4-alice-secret-token';
const bob = 'bobs.token_with-marks~';
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'static-token-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function start(text: string): Promise<Authenticator> {
  const file = join(directory, 'tokens.csv');
  await writeFile(file, text, { mode: 0o600 });
  const host = new PluginHost().add({ plugin, config: { file } });
  await host.start();
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return authenticator;
}

authnContract('authn-static-token', async () => ({
  authenticator: await start(`${alice},alice,1001,"dev,ops"\n${bob},bob\n`),
  known: [
    {
      title: 'a user with UID and groups',
      credentials: bearerCredentials(alice),
      identity: { name: 'alice', uid: '1001', groups: ['dev', 'ops', 'system:authenticated'] },
    },
    { title: 'a user name alone', credentials: bearerCredentials(bob), identity: { name: 'bob', groups: ['system:authenticated'] } },
  ],
  invalid: [
    { title: 'a user name as token', credentials: bearerCredentials('alice') },
    { title: 'a whole line', credentials: bearerCredentials(`${alice},alice,1001`) },
  ],
  secrets: [alice, bob],
}));

describe('authn-static-token', () => {
  it('reads the format of --token-auth-file: quotes, spaces, comments and empty lines', async () => {
    const authenticator = await start(`# users\n\n t1 , carol , u-3 , "a,b,c" \nt2,"dave",,one\n`);
    expect(await authenticator.authenticate(bearerCredentials('t1'))).toEqual({
      outcome: 'authenticated',
      identity: { name: 'carol', uid: 'u-3', groups: ['a', 'b', 'c', 'system:authenticated'] },
    });
    expect(await authenticator.authenticate(bearerCredentials('t2'))).toEqual({
      outcome: 'authenticated',
      identity: { name: 'dave', groups: ['one', 'system:authenticated'] },
    });
    expect(await authenticator.authenticate(bearerCredentials('#'))).toEqual({ outcome: 'abstained' });
  });

  it('does not start with an invalid line, and names its number without the token', async () => {
    const failing = start('good,alice\nlonely-secret-token\n');
    await expect(failing).rejects.toThrow(/tokens\.csv:2: a line is token,user,uid,"groups"/);
    await expect(failing).rejects.not.toThrow(/lonely/);
  });

  it('does not start if the file does not exist', async () => {
    await expect(new PluginHost().add({ plugin, config: { file: join(directory, 'none') } }).start()).rejects.toMatchObject({
      code: 'StartFailed',
    });
  });
});
