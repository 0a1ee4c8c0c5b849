import { expect, it } from 'vitest';
import { redactSecrets } from '../src/redact-secrets.ts';

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
