import { request as httpsRequest } from 'node:https';
import type { ClientRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { RequestBodyMemory } from '../../src/http/request-body-memory.ts';
import { configMap } from '../support/fake-pipeline.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const path = '/api/v1/namespaces/default/configmaps';
const halfBody = 900_000;
let server: TestServer;
const incomplete: ClientRequest[] = [];
afterEach(async () => {
  for (const request of incomplete.splice(0)) request.destroy();
  await server.stop();
});

/** Sends half of a body over HTTP/1.1 and stalls. */
function sendIncomplete(): ClientRequest {
  const headers = { 'content-type': 'application/json', 'content-length': String(2 * halfBody) };
  const request = httpsRequest({
    host: '127.0.0.1',
    port: server.port,
    method: 'POST',
    path,
    headers,
    ca: server.keys.caBundle,
    agent: false,
  });
  request.on('error', () => undefined); // the test destroys it
  request.write(Buffer.alloc(halfBody, 0x20));
  incomplete.push(request);
  return request;
}

describe.each(['http1', 'http2'] as const)('request bodies over %s', (protocol) => {
  it('are rejected with 429 while other bodies fill the bound, and accepted again when those requests end', async () => {
    const bodies = new RequestBodyMemory(2_000_000);
    server = await startServer({ bodies });
    server.pipeline.object(configMap('a'), 201);
    const post = () =>
      server[protocol]('POST', path, {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(configMap('a', { data: { x: 'y'.repeat(500_000) } })),
      });
    expect((await post()).code).toBe(201);
    await expect.poll(() => bodies.bytes).toBe(0);
    const [first] = [sendIncomplete(), sendIncomplete()];
    await expect.poll(() => bodies.bytes).toBe(2 * halfBody);
    const rejected = await post();
    expect([rejected.code, rejected.headers['retry-after']]).toEqual([429, '1']);
    expect(rejected.json()).toMatchObject({ reason: 'TooManyRequests', message: 'Too many requests, please try again later.' });
    await expect.poll(() => bodies.bytes).toBe(2 * halfBody);
    first.destroy();
    await expect.poll(() => bodies.bytes).toBe(halfBody);
    expect((await post()).code).toBe(201);
  });
});
