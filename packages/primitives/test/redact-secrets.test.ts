import { describe, expect, it } from 'vitest';
import { redactConfig, redactLogFields, redactSecrets } from '../src/redact-secrets.ts';

it.each([
  ['abcdef.0123456789abcdef', '<redacted>'],
  ['Authorization: Bearer secret', 'Authorization: Bearer <redacted>'],
  ['https://ada:password@etcd:2379', 'https://<redacted>@etcd:2379'],
  ['-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----', '<redacted>'],
  ['a'.repeat(40), '<redacted>'],
  ['/var/lib/oarlock/a-cluster/pki/service-account-keys', '/var/lib/oarlock/a-cluster/pki/service-account-keys'],
])('%j becomes %j', (text, expected) => {
  expect(redactSecrets(text)).toBe(expected);
});

describe('redactConfig', () => {
  it('redacts secrets by the name of their field and by their form', () => {
    const config = {
      users: [{ name: 'ada', password: 'x' }],
      tokens: { abc: 'ada' },
      tokenFile: '/etc/tokens.csv',
      apiKey: 'short',
      key: 'default/a',
      monkey: 'banana',
      publicKey: 'ssh',
      keySize: 256,
      url: 'https://ada:x@etcd:2379',
      text: 'abcdef.0123456789abcdef',
      passwords: true,
    };
    expect(redactConfig(config)).toEqual({
      users: [{ name: 'ada', password: '<redacted>' }],
      tokens: '<redacted>',
      tokenFile: '/etc/tokens.csv',
      apiKey: '<redacted>',
      key: '<redacted>',
      monkey: 'banana',
      publicKey: 'ssh',
      keySize: 256,
      url: 'https://<redacted>@etcd:2379',
      text: '<redacted>',
      passwords: true,
    });
  });

  it('is bounded, and leaves out what JSON cannot express', () => {
    const nested: Record<string, unknown> = {};
    nested['self'] = nested;
    expect(JSON.stringify(redactConfig(nested)).length).toBeLessThan(200);
    expect(redactConfig({ a: () => 1, b: 'x'.repeat(5000).replaceAll('xx', 'x ') })).toEqual({ b: expect.stringMatching(/^.{1000}$/) });
  });
});

describe('redactLogFields', () => {
  it.each([
    ['token', 'x'],
    ['clientSecret', 'x'],
    ['secret', 'hunter2'],
    ['Authorization', 'Basic eDp5'],
    ['API_KEY', 'x'],
    ['api-key', 'x'],
    ['key', 'dGhlIGtleSBvZiBBRVM/+w=='],
    ['text', 'abcdef.0123456789abcdef'],
  ])('redacts %s: %s', (name, value) => {
    expect(redactLogFields({ [name]: value, nested: { [name]: value } })).toEqual({
      [name]: '<redacted>',
      nested: { [name]: '<redacted>' },
    });
  });

  it.each([
    ['key', 'default/web'],
    ['keys', 'service-account'],
    ['secret', 'kube-system/admin'],
    ['monkey', 'banana'],
    ['turkeys', 'gobble'],
    ['topology', 'topology.kubernetes.io/zone'],
    ['tokenFile', '/etc/tokens'],
    ['container', 'f'.repeat(64)],
    ['digest', `sha256:${'0'.repeat(64)}`],
    ['tokens', 3],
    ['at', new Date(0)],
  ])('keeps %s: %s', (name, value) => {
    expect(redactLogFields({ [name]: value })).toEqual({ [name]: value instanceof Date ? value.toJSON() : value });
  });

  it('keeps errors, whose message and stack the logger redacts', () => {
    const err = new Error('a');
    expect(redactLogFields({ err })).toEqual({ err });
  });
});
