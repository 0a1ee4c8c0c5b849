import { secrets } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Secret } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
function tokenSecret(id: string, fields: Readonly<Record<string, string>> = {}, more: Partial<Secret> = {}): Secret {
  const all = { 'token-id': id, 'token-secret': '0123456789abcdef', 'usage-bootstrap-authentication': 'true', ...fields };
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
    type: 'bootstrap.kubernetes.io/token',
    data: Object.fromEntries(Object.entries(all).map(([key, value]) => [key, base64(value)])),
    ...more,
  };
}

function open() {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(
    secrets,
    tokenSecret('aaaaaa'),
    tokenSecret('bbbbbb', { expiration: '2026-01-01T01:00:00Z', 'auth-extra-groups': 'system:bootstrappers:workers,system:masters' }),
    tokenSecret('cccccc', { expiration: '2025-12-31T23:59:59Z' }),
    tokenSecret('dddddd', { 'usage-bootstrap-authentication': 'false' }),
    tokenSecret('eeeeee', {}, { type: 'Opaque' }),
    tokenSecret('ffffff', { 'token-id': 'aaaaaa' }),
    tokenSecret('gggggg', { 'token-secret': '' }),
    tokenSecret('hhhhhh', { expiration: 'next summer' }),
    tokenSecret(
      'iiiiii',
      {},
      {
        metadata: {
          namespace: 'kube-system',
          name: 'bootstrap-token-iiiiii',
          deletionTimestamp: '2026-01-01T00:00:00Z',
          finalizers: ['x/y'],
        },
      },
    ),
    tokenSecret('jjjjjj', {}, { metadata: { namespace: 'default', name: 'bootstrap-token-jjjjjj' } }),
  );
  const [authenticator] = new PluginHost({ clock }).provide(Client, api.client()).add({ plugin }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return { clock, api, authenticator };
}
const tokenOf = (id: string, secret = '0123456789abcdef') => bearerCredentials(`${id}.${secret}`);

authnContract('authn-bootstrap-token', () => {
  const { api, authenticator } = open();
  return {
    authenticator,
    known: [
      {
        title: 'a token',
        credentials: tokenOf('aaaaaa'),
        identity: { name: 'system:bootstrap:aaaaaa', groups: ['system:bootstrappers', 'system:authenticated'] },
      },
      {
        title: 'a token with an expiration and an extra group',
        credentials: tokenOf('bbbbbb'),
        identity: {
          name: 'system:bootstrap:bbbbbb',
          groups: ['system:bootstrappers', 'system:bootstrappers:workers', 'system:authenticated'],
        },
      },
    ],
    invalid: [
      { title: 'another secret', credentials: tokenOf('aaaaaa', '0123456789abcdee') },
      { title: 'unknown', credentials: tokenOf('zzzzzz') },
      { title: 'expired', credentials: tokenOf('cccccc') },
      { title: 'not for authentication', credentials: tokenOf('dddddd') },
      { title: 'another type', credentials: tokenOf('eeeeee') },
      { title: 'another id in the data', credentials: tokenOf('ffffff') },
      { title: 'no secret in the data', credentials: tokenOf('gggggg') },
      { title: 'an expiration that is not a time', credentials: tokenOf('hhhhhh') },
      { title: 'being deleted', credentials: tokenOf('iiiiii') },
      { title: 'in another namespace', credentials: tokenOf('jjjjjj') },
    ],
    secrets: ['0123456789abcdef'],
    failDependencies: () => api.failNext({ resource: secrets }, failure('ServiceUnavailable', 'the storage is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});

describe('authn-bootstrap-token', () => {
  it('rejects an expired token', async () => {
    const { clock, authenticator } = open();
    await clock.advance(3_599_999);
    expect(await authenticator.authenticate(tokenOf('bbbbbb'))).toMatchObject({ outcome: 'authenticated' });
    await clock.advance(1);
    expect(await authenticator.authenticate(tokenOf('bbbbbb'))).toEqual({
      outcome: 'rejected',
      reason: 'the bootstrap token is not valid',
    });
  });

  it('rejects a deleted token at once', async () => {
    const { api, authenticator } = open();
    expect(await authenticator.authenticate(tokenOf('aaaaaa'))).toMatchObject({ outcome: 'authenticated' });
    api.remove(secrets, { namespace: 'kube-system', name: 'bootstrap-token-aaaaaa' });
    expect(await authenticator.authenticate(tokenOf('aaaaaa'))).toEqual({
      outcome: 'rejected',
      reason: 'the bootstrap token is not known',
    });
  });

  it('abstains from tokens of other forms', async () => {
    const { authenticator, api } = open();
    api.requests.length = 0;
    for (const token of ['aaaaaa', 'AAAAAA.0123456789abcdef', 'aaaaaa.0123456789abcde', 'aaaaaa.0123456789abcdef0', 'a.b.c'])
      expect(await authenticator.authenticate(bearerCredentials(token))).toEqual({ outcome: 'abstained' });
    expect(api.requests).toEqual([]);
  });
});
