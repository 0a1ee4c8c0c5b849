import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  bearerToken,
  formatJoinToken,
  newJoinToken,
  parseJoinToken,
  sealClusterKey,
  tokenIdOf,
  unsealClusterKey,
} from '../../src/servers/join-token.ts';
import { seal, unseal } from '../../src/servers/sealed-box.ts';

describe('a join token', () => {
  it('of a server has a third part, which is not in the part that is sent', () => {
    const token = newJoinToken('server');
    const text = formatJoinToken(token);
    expect(text).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}\.[\w-]{43}$/);
    expect(parseJoinToken(text)).toEqual(token);
    expect(bearerToken(token)).toBe(text.slice(0, 23));
  });

  it('of a node has two parts', () => {
    const token = newJoinToken('node');
    expect(formatJoinToken(token)).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
    expect(parseJoinToken(formatJoinToken(token))).toEqual(token);
  });

  it('in another form is not parsed', () => {
    for (const text of ['', 'abcdef', 'abcdef.0123456789abcde', 'ABCDEF.0123456789abcdef', `abcdef.0123456789abcdef.${'a'.repeat(42)}`])
      expect(parseJoinToken(text)).toBeUndefined();
  });

  it('opens the cluster key only with its own id and third part', () => {
    const [one, two, clusterKey] = [newJoinToken('server'), newJoinToken('server'), randomBytes(32)];
    const key = (token: typeof one) => token.joinKey ?? Buffer.alloc(0);
    const sealed = sealClusterKey(one.id, key(one), clusterKey);
    expect(unsealClusterKey(one.id, key(one), sealed).equals(clusterKey)).toBe(true);
    expect(() => unsealClusterKey(one.id, key(two), sealed)).toThrow();
    expect(() => unsealClusterKey(two.id, key(one), sealed)).toThrow();
  });

  it('is found by the user name that it authenticates', () => {
    expect(tokenIdOf('system:bootstrap:abcdef')).toBe('abcdef');
    expect(tokenIdOf('system:bootstrap:abcdef/../x')).toBeUndefined();
    expect(tokenIdOf('system:node:abcdef')).toBeUndefined();
  });
});

describe('a sealed text', () => {
  it('is opened with the same key and purpose only, and not if a byte was changed', () => {
    const key = randomBytes(32);
    const sealed = seal(key, 'test', 'secret');
    expect(unseal(key, 'test', sealed)).toBe('secret');
    expect(sealed).not.toBe(seal(key, 'test', 'secret'));
    expect(() => unseal(key, 'other', sealed)).toThrow();
    expect(() => unseal(randomBytes(32), 'test', sealed)).toThrow();
    const bytes = Buffer.from(sealed, 'base64');
    for (const at of [0, 12, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => unseal(key, 'test', changed.toString('base64'))).toThrow();
    }
    expect(() => unseal(key, 'test', 'AAAA')).toThrow('the sealed text is too short');
  });
});
