import type { networkInterfaces } from 'node:os';
import { expect, it } from 'vitest';
import { foreignInterface } from '../src/foreign-interface.ts';

const interfaces = {
  lo: [{ address: '127.0.0.1' }, { address: '::1' }],
  eth0: [{ address: '10.0.0.5' }, { address: 'fe80::1' }],
  oarlock0: [{ address: '10.244.0.1' }, { address: 'fd00::1' }],
} as unknown as ReturnType<typeof networkInterfaces>;

it('returns the interface of another network with an address in a range of the pods', () => {
  expect(foreignInterface(['10.244.0.0/24'], ['oarlock1'], interfaces)).toEqual({
    name: 'oarlock0',
    address: '10.244.0.1',
    range: '10.244.0.0/24',
  });
  expect(foreignInterface(['10.244.1.0/24', 'fd00::/64'], ['oarlock1'], interfaces)).toMatchObject({
    address: 'fd00::1',
    range: 'fd00::/64',
  });
  expect(foreignInterface(['10.0.0.0/24'], ['oarlock0'], interfaces)).toMatchObject({ name: 'eth0' });
});

it('accepts the own interfaces, and addresses outside of the ranges', () => {
  expect(foreignInterface(['10.244.0.0/24', 'fd00::/64'], ['oarlock0', 'oarlock-vx'], interfaces)).toBeUndefined();
  expect(foreignInterface(['10.244.1.0/24'], ['oarlock1'], interfaces)).toBeUndefined();
});
