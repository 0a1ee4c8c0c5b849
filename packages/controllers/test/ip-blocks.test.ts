import { describe, expect, it } from 'vitest';
import { ipBlocks, without, type IPBlock } from '../src/ip-blocks/ip-blocks-controller.ts';

const block = (spec: Partial<IPBlock['spec']>): IPBlock => ({
  apiVersion: 'network.oarlock.dev/v1',
  kind: ipBlocks.kind,
  metadata: { name: 'ip4-10-1-0-0-26' },
  spec: { cidr: '10.1.0.0/26', pool: 'p', ...spec },
});

describe('a block of a node that is gone', () => {
  it('goes with it', () => {
    expect(without(block({ node: 'a', claims: { a: [1, 2] } }), 'a')).toBeUndefined();
  });
  it('stays without a node for who has borrowed of it', () => {
    expect(without(block({ node: 'a', claims: { a: [1], b: [2] } }), 'a')?.spec).toEqual({
      cidr: '10.1.0.0/26',
      pool: 'p',
      claims: { b: [2] },
    });
  });
  it('stays with its node when the other had only borrowed', () => {
    expect(without(block({ node: 'a', claims: { b: [2] } }), 'b')?.spec).toEqual({ cidr: '10.1.0.0/26', pool: 'p', node: 'a', claims: {} });
  });
});
