import { describe, expect, it } from 'vitest';
import { redact, redactText } from '../../src/doctor/redact.ts';

const identity = { username: 'ada', homedir: '/home/ada', hostname: 'engine-1' };

describe('redactText', () => {
  it.each([
    ['/home/ada/.oarlock is full', '~/.oarlock is full'],
    ['/home/bob/x and /home/carol', '/home/<user>/x and /home/<user>'],
    ['ada runs on engine-1', '<user> runs on <host>'],
    ['ada-lovelace and adas', 'ada-lovelace and adas'],
    ['10.1.2.3:6443 and fd00::12', '<address>:6443 and <address>'],
    ['127.0.0.1:2379, 0.0.0.0, ::1', '127.0.0.1:2379, 0.0.0.0, ::1'],
    ['v1.36.0+oarlock.0.1.0 and 6.1.0-40-amd64', 'v1.36.0+oarlock.0.1.0 and 6.1.0-40-amd64'],
    ['--token abcdef.0123456789abcdef', '--token <redacted>'],
    ['Authorization: Bearer x.y', 'Authorization: Bearer <redacted>'],
    ['eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl', '<redacted>'],
    ['https://me:secret@example.test/', 'https://<redacted>@example.test/'],
    [`key ${'Ab1+'.repeat(12)}=`, 'key <redacted>'],
    ['-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----', '<redacted>'],
    ['2026-11-24T19:43:42.806Z', '2026-11-24T19:43:42.806Z'],
    ['/usr/local/lib/node_modules/oarlock/bundle/clusters', '/usr/local/lib/node_modules/oarlock/bundle/clusters'],
  ])('%j becomes %j', (text, expected) => {
    expect(redactText(text, identity)).toBe(expected);
  });

  it('keeps root, which is no name of a person', () => {
    expect(redactText('requires root in /root', { ...identity, username: 'root', homedir: '/root' })).toBe('requires root in ~');
  });
});

it('redact changes all texts of a value, and no keys', () => {
  expect(redact({ ada: ['ada', 1, null, { a: 'engine-1' }], flag: true }, identity)).toEqual({
    ada: ['<user>', 1, null, { a: '<host>' }],
    flag: true,
  });
});
