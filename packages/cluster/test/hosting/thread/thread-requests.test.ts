import type { Client } from '@oarlock/spi/client';
import { expect, it } from 'vitest';
import type { FromThreadMessage, ToThreadMessage } from '../../../src/hosting/thread/thread-protocol.ts';
import { ThreadRequests } from '../../../src/hosting/thread/thread-requests.ts';

const calls: string[] = [];
const client = { get: async () => 'found', close: () => calls.push('close'), withSpanContext: () => client } as unknown as Client;

/** Sends a request as a plugin's thread does, and returns the answer. */
const ask = (method: string) =>
  new Promise<ToThreadMessage>((resolve) => {
    const requests = new ThreadRequests(client, resolve);
    requests.handleMessage({ type: 'ask', id: 1, method, args: ['get', 'x'] } satisfies FromThreadMessage);
  });

it('a plugin calls the methods of a client', async () => {
  expect(await ask('get')).toEqual({ type: 'answer', id: 1, value: 'found' });
});

it.each(['close', 'withSpanContext', 'constructor', '__proto__', '__defineGetter__', 'toString'])(
  'a plugin cannot call %s',
  async (method) => {
    expect(await ask(method)).toMatchObject({ type: 'answer', error: { message: `the client has no method "${method}"` } });
    expect(calls).toEqual([]);
  },
);
