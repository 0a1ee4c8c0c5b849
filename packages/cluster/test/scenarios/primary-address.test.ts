import type * as os from 'node:os';
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import { primaryAddress } from '@oarlock/cluster/process/addresses';
import { beforeEach, expect, it, vi } from 'vitest';

vi.mock('node:os', async (original) => ({ ...(await original<typeof os>()), networkInterfaces: vi.fn() }));

const found = vi.mocked(networkInterfaces);
const ip = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  netmask: '',
  mac: '',
  internal,
  cidr: null,
  family: 'IPv4',
});
const lo = ip('127.0.0.1', true);
beforeEach(() => void found.mockReset());

it.each([
  ['of an interface that leads somewhere', [lo, ip('192.0.0.8', true)], [ip('169.254.7.7'), ip('10.1.2.3')], '10.1.2.3'],
  ['given to lo, where nothing leads anywhere', [lo, ip('192.0.0.8', true)], [], '192.0.0.8'],
  ['of loopback, where there is no other', [lo], [], '127.0.0.1'],
] as const)('primaryAddress returns one %s', (_, own, outside, wanted) => {
  found.mockReturnValue({ lo: [...own], eth0: [...outside] });
  expect(primaryAddress()).toBe(wanted);
});
