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
  'wrong-token': { authenticated: false, error: 'no such wrong-token' },
};

async function open() {
  const asked: string[] = [];
  let broken = false;
  const server: Server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      const { spec } = JSON.parse(text) as { spec: { token: string } };
      asked.push(spec.token);
      response.statusCode = broken ? 500 : 200;
      response.end(JSON.stringify({ kind: 'TokenReview', apiVersion: 'authentication.k8s.io/v1', status: answers[spec.token] ?? {} }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const clock = new FakeClock();
  const host = new PluginHost({ clock }).add({
    plugin,
    config: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/review` },
  });
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  await host.start();
  return {
    asked,
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
      title: 'a token that it knows',
      credentials: bearerCredentials('good-token'),
      identity: { name: 'ada', uid: '7', groups: ['devs', 'system:authenticated'], extra: { 'a/b': ['c'] } },
    },
  ],
  invalid: [
    { title: 'a token that it does not accept', credentials: bearerCredentials('wrong-token') },
    { title: 'a token of nobody', credentials: bearerCredentials('nameless-token') },
    { title: 'a token that it does not know', credentials: bearerCredentials('other-token') },
  ],
  secrets: ['good-token', 'wrong-token'],
}));

describe('authn-webhook', () => {
  it('keeps answers for a while, and asks once when many ask at once', async () => {
    const { asked, clock, authenticator, dispose } = await open();
    await Promise.all([1, 2, 3].map(() => authenticator.authenticate(bearerCredentials('good-token'))));
    await authenticator.authenticate(bearerCredentials('good-token'));
    expect(asked).toEqual(['good-token']);
    await clock.advance(121_000);
    await authenticator.authenticate(bearerCredentials('good-token'));
    expect(asked).toHaveLength(2);
    await dispose();
  });
});
