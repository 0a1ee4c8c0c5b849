import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { selfSigned, signLeaf, spkiOf } from '@oarlock/cluster/pki/certificate-writer';
import { newKey } from '@oarlock/cluster/pki/key-pair';
import { silentLogger } from '@oarlock/primitives/logger';
import { ReviewServer } from '@oarlock/webhook-server/review-server';
import { expect, it } from 'vitest';

it('a webhook server keeps connections of clients that know a path of reviews, and of no others', async () => {
  const key = newKey();
  const ca = selfSigned('ca', newKey());
  const names = { commonName: 'a', dnsNames: [], ipAddresses: ['127.0.0.1'], usages: ['server'] as const, days: 1 };
  const certificate = signLeaf(ca, spkiOf(createPrivateKey(key)), names);
  const handlers = new Map([['/secret', () => Promise.resolve({})]]);
  const server = new ReviewServer({ port: 0, address: '127.0.0.1', certificate, key, handlers, log: silentLogger });
  const port = await server.start();
  const agent = new Agent({ keepAlive: true, ca: ca.certificate });
  const connectionOf = async (method: string, path: string) => {
    const sent = request({ host: '127.0.0.1', port, method, path, agent }).end(method === 'POST' ? '{}' : undefined);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    return [response.statusCode, response.headers.connection];
  };
  try {
    expect(await connectionOf('POST', '/secret')).toEqual([200, 'keep-alive']);
    expect(await connectionOf('POST', '/other')).toEqual([404, 'close']);
    expect(await connectionOf('GET', '/healthz')).toEqual([200, 'close']);
    expect(await connectionOf('GET', '/secret')).toEqual([405, 'close']);
  } finally {
    agent.destroy();
    await server.stop();
  }
});
