import { expect, it } from 'vitest';
import { sourceOf } from '../../../src/http/internal/connection-table.ts';

it.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:0:1::1', '20010db800000001/64'],
  ['2001:db8:0:1:ffff:ffff:ffff:ffff', '20010db800000001/64'],
  ['2001:db8:0:2::1', '20010db800000002/64'],
  ['fe80::1%eth0', 'fe80000000000000/64'],
])('the source of %s is %s', (address, source) => {
  expect(sourceOf(address)).toBe(source);
});
