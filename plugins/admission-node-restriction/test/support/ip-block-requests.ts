import { resource } from '@oarlock/api/resource';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { as } from './node-requests.ts';

const blocks = resource('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
const block = (spec: object) => ({ metadata: { name: 'b' }, ...{ spec: { cidr: '10.1.0.0/26', pool: 'p', ...spec } } });
const blockChange = (old: object | undefined, next: object | undefined) =>
  admissionRequest(old === undefined ? 'CREATE' : next === undefined ? 'DELETE' : 'UPDATE', blocks, next && block(next), {
    ...as,
    ...(old && { old: block(old) }),
    name: 'b',
  });
/** n2 exists, `gone` does not. */
export const blocksDenied = [
  ['a block for another node', blockChange(undefined, { node: 'n2' }), 'give an IPBlock to node "n2"'],
  ['claims for another node', blockChange(undefined, { node: 'n1', claims: { n2: [1] } }), 'change what node "n2" claims'],
  ['another range', blockChange({ node: 'n1' }, { node: 'n1', cidr: '10.2.0.0/26' }), 'change the range of an IPBlock'],
  ["another's block", blockChange({ node: 'n2' }, { node: 'n1' }), 'take an IPBlock of node "n2"'],
  [
    "another's claims",
    blockChange({ node: 'n2', claims: { n2: [1, 2] } }, { node: 'n2', claims: { n2: [1] } }),
    'change what node "n2" claims',
  ],
  [
    'claims of another node that are all replaced',
    blockChange({ claims: { n2: [1] } }, { claims: { n1: [1] } }),
    'change what node "n2" claims',
  ],
  [
    'an address that another node claims',
    blockChange({ claims: { n2: [1] } }, { claims: { n1: [1], n2: [1] } }),
    'claim address 1, which another node does',
  ],
  ["deletion of another node's block", blockChange({ node: 'n2' }, undefined), 'take an IPBlock of node "n2"'],
  [
    'deletion of a block with claims of another node',
    blockChange({ node: 'n1', claims: { n2: [1] } }, undefined),
    'change what node "n2" claims',
  ],
  [
    'a request of another node',
    blockChange({ claims: { n2: [1] } }, { claims: { n2: [1] }, wanted: { 1: 'n2' } }),
    'request address 1 for other nodes',
  ],
] as const;
export const blocksAllowed = [
  ['a new block for itself', blockChange(undefined, { node: 'n1', claims: { n1: [1, 2] } })],
  ['a claim in a new block', blockChange(undefined, { claims: { n1: [7] } })],
  ['more claims in its block', blockChange({ node: 'n1', claims: { n1: [1], n2: [3] } }, { node: 'n1', claims: { n1: [1, 2], n2: [3] } })],
  ["a claim in another node's block", blockChange({ node: 'n2', claims: { n2: [1] } }, { node: 'n2', claims: { n1: [5], n2: [1] } })],
  ['a wish', blockChange({ claims: { n2: [1] } }, { claims: { n2: [1] }, wanted: { 1: 'n1' } })],
  ['an address that it requested', blockChange({ claims: { n1: [1, 2] }, wanted: { 1: 'n2' } }, { claims: { n1: [2] }, wanted: {} })],
  ['a block without a node', blockChange({ claims: { n2: [1] } }, { node: 'n1', claims: { n2: [1] } })],
  ['a block of a deleted node', blockChange({ node: 'gone', claims: { gone: [1] } }, { node: 'n1', claims: { n1: [1] } })],
  ['the release of a block', blockChange({ node: 'n1', claims: { n1: [1], n2: [2] } }, { claims: { n2: [2] } })],
  ['deletion of its block', blockChange({ node: 'n1', claims: { n1: [1] } }, undefined)],
] as const;
