import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { discard, HttpClient } from '@oarlock/oci/registry/http-client';
import { httpTarget, probeHttp } from '@oarlock/kubelet/probes/http-probe';
import { systemClock } from '@oarlock/primitives/clock';
import { dialSpdy } from '@oarlock/spdy/dial';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { afterAll, expect, it } from 'vitest';
import { hostileResponses, type Answer } from './support/hostile-responses.ts';

const timeoutMs = 2_000;
const signal = () => AbortSignal.timeout(timeoutMs);
const none = new AbortController().signal;
const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
});

/** Starts a server that answers the first bytes of each connection, and returns its port. */
async function serve(answer: Answer): Promise<number> {
  const server = createServer((socket) => {
    ends.push(() => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.once('data', () => answer(socket)).resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** The clients of servers that pods, registries and users run. */
const clients: Readonly<Record<string, (port: number) => Promise<unknown>>> = {
  'an HTTP probe': (port) => probeHttp(httpTarget({ port }, '127.0.0.1', port), { timeoutMs, clock: systemClock, signal: none }),
  'the client of webhooks': async (port) => {
    const client = new JsonClient({ url: `http://127.0.0.1:${port}/x` });
    ends.push(() => client.close());
    await client.post({}, timeoutMs);
  },
  'the client of registries': async (port) => {
    const client = new HttpClient(systemClock, {});
    ends.push(() => client.close());
    const tls = { ca: [], certificates: [], skipVerify: false };
    const url = new URL(`http://127.0.0.1:${port}/v2/`);
    discard(
      await client.send({ url, method: 'GET', headers: {}, tls, dialTimeoutMs: timeoutMs, bodyTimeoutMs: timeoutMs, signal: signal() }),
    );
  },
  'the client of SPDY': async (port) => {
    const { connection } = await dialSpdy(`http://127.0.0.1:${port}/`, { protocols: ['a'], signal: signal() });
    connection.open({ a: 'b' });
    await connection.closed;
  },
};

it.each(Object.entries(clients))('%s survives every response', async (_, call) => {
  // the test run fails by an error that nothing receives
  const results = await Promise.allSettled(Object.values(hostileResponses).map(async (answer) => call(await serve(answer))));
  expect(results.length).toBeGreaterThan(40);
});
