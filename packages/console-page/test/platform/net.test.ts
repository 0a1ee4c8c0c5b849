import * as node from 'node:net';
import { expect, it } from 'vitest';
import { isIPv4, isIPv6 } from '../../src/platform/net.ts';

it.each([
  '10.0.0.1',
  '255.255.255.255',
  '256.0.0.1',
  '01.2.3.4',
  '1.2.3',
  '1.2.3.4.5',
  '::',
  '::1',
  'fd00::1:2',
  '::ffff:10.0.0.1',
  'fd00::1::2',
  '1:2:3:4:5:6:7:8',
  '1:2:3:4:5:6:7:8:9',
  'g::1',
  '',
  '::1]@x/[',
])('decides about %j as Node does', (text) => {
  expect([isIPv4(text), isIPv6(text)]).toEqual([node.isIPv4(text), node.isIPv6(text)]);
});
