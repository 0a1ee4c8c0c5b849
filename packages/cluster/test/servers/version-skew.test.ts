import { describe, expect, it } from 'vitest';
import { serverSkew } from '../../src/servers/version-skew.ts';

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
