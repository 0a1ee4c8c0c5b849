import { callHostileServers } from '@oarlock/testing/network/hostile-http';
import { expect, it } from 'vitest';
import { dialSpdy } from '../src/dial.ts';

it('survives every response, and each connection closes with that of the server', async () => {
  const count = await callHostileServers(async (port) => {
    const { connection } = await dialSpdy(`http://127.0.0.1:${port}/`, { protocols: ['a'], signal: AbortSignal.timeout(2_000) });
    connection.open({ a: 'b' });
    await connection.closed;
  });
  expect(count).toBeGreaterThan(40);
});
