import { dnsContract } from '@oarlock/spi/dns/contract';
import { expect, it } from 'vitest';
import { addressBytes } from '../src/addresses.ts';
import { __Class__ } from '../src/dns-server.ts';

dnsContract('__ID__', async () => {
  const server = new __Class__({ address: '127.0.0.1', port: 0, clusterDomain: 'cluster.local' });
  await server.start();
  return {
    server,
    endpoint: { ip: server.address, port: server.port },
    unsupported: {
      tcp: 'it answers over UDP only',
      forward: 'it has no upstream',
      srv: 'it has addresses only',
      cname: 'it has addresses only',
    },
    dispose: () => server.stop(),
  };
});

it('encodes IPv4 and IPv6 addresses', () => {
  expect(addressBytes('10.96.0.10').toString('hex')).toBe('0a60000a');
  expect(addressBytes('fd00::1').toString('hex')).toBe('fd000000000000000000000000000001');
  expect(addressBytes('::').toString('hex')).toBe('0'.repeat(32));
  expect(addressBytes('::ffff:10.0.0.1').toString('hex')).toBe(`${'0'.repeat(20)}ffff0a000001`);
  expect(() => addressBytes('example')).toThrow();
});
