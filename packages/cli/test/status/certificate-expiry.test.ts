import { createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { describeExpiry, presentedExpiry } from '../../src/status/certificate-expiry.ts';

const now = Date.parse('2026-11-24T12:00:00Z');

it.each([
  ['2027-11-24T12:00:00Z', '2027-11-24 (365d)'],
  ['2026-12-24T12:00:00Z', '2026-12-24 (30d)'],
  ['2026-12-24T11:59:59Z', '2026-12-24 (29d, EXPIRES SOON)'],
  ['2026-11-24T12:00:00Z', '2026-11-24 (EXPIRED)'],
])('describes the expiry %s', (expiry, text) => {
  expect(describeExpiry(Date.parse(expiry), now)).toBe(text);
});

it('describes an unknown expiry', () => {
  expect(describeExpiry(undefined, now)).toBe('<unknown>');
});

it('finds no certificate on a port that speaks no TLS', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  expect(await presentedExpiry({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })).toBeUndefined();
  server.close();
});
