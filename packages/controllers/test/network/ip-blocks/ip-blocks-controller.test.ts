import { describe, expect, it } from 'vitest';
import { ipBlocks, withoutNode, type IPBlock } from '../../../src/network/ip-blocks/ip-blocks-controller.ts';

const block = (spec: Partial<IPBlock['spec']>): IPBlock => ({
  apiVersion: 'network.oarlock.dev/v1',
  kind: ipBlocks.kind,
  metadata: { name: 'ip4-10-1-0-0-26' },
  spec: { cidr: '10.1.0.0/26', pool: 'p', ...spec },
});

describe('withoutNode', () => {
  it('deletes a block that no other node uses', () => {
    expect(withoutNode(block({ node: 'a', claims: { a: [1, 2] } }), 'a')).toBeUndefined();
  });
  it('keeps a block without a node for borrowers', () => {
    expect(withoutNode(block({ node: 'a', claims: { a: [1], b: [2] } }), 'a')?.spec).toEqual({
      cidr: '10.1.0.0/26',
      pool: 'p',
      claims: { b: [2] },
    });
  });
  it('keeps the owner when a borrower is removed', () => {
    expect(withoutNode(block({ node: 'a', claims: { b: [2] } }), 'b')?.spec).toEqual({
      cidr: '10.1.0.0/26',
      pool: 'p',
      node: 'a',
      claims: {},
    });
  });
});
