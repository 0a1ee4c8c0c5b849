import { describe, expect, it } from 'vitest';
import { registryAuth } from '../../src/engine/images.ts';

describe('registryAuth', () => {
  // the engine ignores a header that it cannot decode, and pulls without credentials
  it.each(['p', 'pw', 'pwd', '~~~???ÿÿÿ'])('encodes the password %j as base64url with padding', (password) => {
    const header = registryAuth({ username: 'someone', password, serverAddress: 'r.example' });
    expect(header).toMatch(/^[\w-]+={0,2}$/);
    expect(header.length % 4).toBe(0);
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ username: 'someone', password });
  });

  it('decodes the pair of a docker config', () => {
    const header = registryAuth({ auth: Buffer.from('someone:pass:word').toString('base64') });
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ username: 'someone', password: 'pass:word' });
  });
});
