import { describe, expect, it } from 'vitest';
import { nodeSkew, serverSkew, skewNotices } from '../../src/servers/version-skew.ts';

describe('serverSkew', () => {
  it.each([
    ['v1.36.0+oarlock.0.1.0', 'v1.36.4+oarlock.0.3.0'],
    ['v1.37.0', 'v1.36.0'],
    ['v1.35.2', 'v1.36.0'],
    ['a build without a version', 'v1.36.0'],
  ])('accepts %s beside %s', (own, cluster) => {
    expect(serverSkew(own, cluster)).toBeUndefined();
  });

  it.each([
    ['v1.38.0', 'v1.36.0'],
    ['v1.34.0', 'v1.36.0'],
  ])('rejects %s beside %s', (own, cluster) => {
    expect(serverSkew(own, cluster)).toBe(
      `this is ${own}, and the cluster is ${cluster}: servers of a cluster differ by at most one minor version`,
    );
  });
});

describe('nodeSkew', () => {
  it.each([
    ['v1.36.2', 'v1.36.0'],
    ['v1.33.9', 'v1.36.0'],
    ['unknown', 'v1.36.0'],
  ])('accepts a node %s with a server %s', (node, server) => {
    expect(nodeSkew(node, server)).toBeUndefined();
  });

  it.each([
    ['v1.37.0', 'v1.36.9', 'a node must not be newer than a server'],
    ['v1.32.0', 'v1.36.0', 'a node is at most 3 minor versions older than a server'],
  ])('rejects a node %s with a server %s', (node, server, reason) => {
    expect(nodeSkew(node, server)).toBe(`the node is ${node}, and the server is ${server}: ${reason}`);
  });
});

it('skewNotices compares nodes with the oldest and the newest server, and servers with each other', () => {
  const named = (versions: readonly string[]) => versions.map((version, index) => ({ name: `n${index}`, version }));
  expect(skewNotices(named(['v1.36.0', 'v1.37.0']), named(['v1.36.0', 'v1.34.0']))).toEqual([]);
  expect(skewNotices(named(['v1.36.0', 'v1.37.0']), named(['v1.37.0', 'v1.33.0', '']))).toEqual([
    'n0: the node is v1.37.0, and the server is v1.36.0: a node must not be newer than a server',
    'n1: the node is v1.33.0, and the server is v1.37.0: a node is at most 3 minor versions older than a server',
  ]);
  expect(skewNotices(named(['v1.38.0', 'v1.36.0']), [])).toEqual([
    'the server n1 is v1.36.0, and n0 is v1.38.0: servers differ by at most one minor version',
  ]);
  expect(skewNotices([], named(['v1.36.0']))).toEqual([]);
});
