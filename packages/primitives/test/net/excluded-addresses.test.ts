import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { ExcludedAddresses } from '../../src/net/excluded-addresses.ts';

it.each([
  ['192.0.2.1', true],
  ['::ffff:192.0.2.1', true],
  ['2001:db8:0::1', true],
  ['192.0.2.2', false],
  ['192.0.2.1.example.com', false],
])('%s is excluded: %s', (host, expected) => {
  expect(new ExcludedAddresses(['192.0.2.1', '2001:db8::1']).has(host)).toBe(expected);
});

it('no connection is made to the excluded addresses of a name', async () => {
  const { lookup } = new ExcludedAddresses(['127.0.0.1', '::1']);
  const [error] = (await once(connect({ host: 'localhost', port: 1, lookup }), 'error')) as [Error];
  expect(error.message).toBe('address not allowed');
});
