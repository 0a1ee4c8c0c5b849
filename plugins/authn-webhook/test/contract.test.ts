import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const answers: Record<string, object> = {
  'good-token': { authenticated: true, user: { username: 'ada', uid: '7', groups: ['devs'], extra: { 'a/b': ['c'] } } },
  'nameless-token': { authenticated: true, user: {} },
  'vault-token': { authenticated: true, user: { username: 'ada' }, audiences: ['vault'] },
  'extra-token': JSON.parse('{"authenticated":true,"user":{"username":"ada","extra":{"__proto__":["a"],"constructor":["b"]}}}') as object,
  'wrong-token': { authenticated: false, error: 'no such wrong-token' },
};

async function open(config: object = {}) {
  const reviewed: string[] = [];
  let broken = false;
  const server: Server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      const { spec } = JSON.parse(text) as { spec: { token: string } };
      reviewed.push(spec.token);
      response.statusCode = broken ? 500 : 200;
      response.end(JSON.stringify({ kind: 'TokenReview', apiVersion: 'authentication.k8s.io/v1', status: answers[spec.token] ?? {} }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const clock = new FakeClock();
  const host = new PluginHost({ clock }).add({
    plugin,
    config: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/review`, ...config },
  });
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  await host.start();
  return {
    reviewed,
    clock,
    authenticator,
    breakDown: () => {
      broken = true;
    },
    async dispose() {
      await host.stop();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

authnContract('authn-webhook', async () => ({
  ...(await open()),
  known: [
    {
      title: 'an accepted token',
      credentials: bearerCredentials('good-token'),
      identity: { name: 'ada', uid: '7', groups: ['devs', 'system:authenticated'], extra: { 'a/b': ['c'] } },
    },
  ],
  invalid: [
    { title: 'a rejected token', credentials: bearerCredentials('wrong-token') },
    { title: 'a token without a user', credentials: bearerCredentials('nameless-token') },
    { title: 'an unknown token', credentials: bearerCredentials('other-token') },
  ],
  secrets: ['good-token', 'wrong-token'],
}));

describe('authn-webhook', () => {
  it('caches results and shares one review among concurrent requests', async () => {
    const { reviewed, clock, authenticator, dispose } = await open();
    await Promise.all([1, 2, 3].map(() => authenticator.authenticate(bearerCredentials('good-token'))));
    await authenticator.authenticate(bearerCredentials('good-token'));
    expect(reviewed).toEqual(['good-token']);
    await clock.advance(121_000);
    await authenticator.authenticate(bearerCredentials('good-token'));
    expect(reviewed).toHaveLength(2);
    await dispose();
  });

  it('keeps extra keys such as __proto__', async () => {
    const { authenticator, dispose } = await open();
    const result = await authenticator.authenticate(bearerCredentials('extra-token'));
    expect(result.outcome === 'authenticated' && Object.entries(result.identity.extra ?? {})).toEqual([
      ['__proto__', ['a']],
      ['constructor', ['b']],
    ]);
    await dispose();
  });

  it.each<[string, string, readonly string[], readonly string[] | undefined, string, readonly string[] | undefined]>([
    ['of a required audience', 'vault-token', ['vault', 'api'], undefined, 'authenticated', ['vault']],
    ['of another audience', 'vault-token', ['api'], undefined, 'abstained', undefined],
    ['of the audience of a TokenReview', 'vault-token', ['api'], ['vault'], 'authenticated', ['vault']],
    ['of another audience than that of a TokenReview', 'vault-token', ['vault'], ['other'], 'abstained', undefined],
    ['without audiences, as one of the configured audiences', 'good-token', ['api'], undefined, 'authenticated', ['api']],
    ['without audiences, in a TokenReview for another', 'good-token', ['api'], ['vault'], 'abstained', undefined],
    ['without audiences where none is required', 'good-token', [], undefined, 'authenticated', undefined],
  ])('handles a token %s', async (_, token, configured, requested, outcome, audiences) => {
    const { authenticator, dispose } = await open({ audiences: configured });
    const result = await authenticator.authenticate({ ...bearerCredentials(token), ...(requested && { audiences: requested }) });
    expect(result.outcome).toBe(outcome);
    if (result.outcome === 'authenticated') expect(result.audiences).toEqual(audiences);
    await dispose();
  });
});
