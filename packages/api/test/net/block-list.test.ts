import { blockListOf } from '@oarlock/api/net/block-list';
import { describe, expect, it } from 'vitest';

describe('blockListOf', () => {
  it('matches all networks and rejects invalid text', () => {
    const list = blockListOf(['10.1.2.3/8', 'fd00::1/64']);
    expect([list.check('10.9.9.9'), list.check('11.0.0.1'), list.check('fd00::9', 'ipv6'), list.check('fd00:0:0:1::', 'ipv6')]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(() => blockListOf(['10.0.0.0'])).toThrow(new RangeError('invalid CIDR address: 10.0.0.0'));
  });
});
