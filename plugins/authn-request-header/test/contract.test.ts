import type { X509Certificate } from 'node:crypto';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { authnContract, noCredentials } from '@oarlock/spi/authn/contract';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

// the API server has verified the certificate; the plugin reads its subject only
const certificate = (subject: string) => ({ subject }) as X509Certificate;
const frontProxyCertificate = certificate('O=proxies\nCN=front-proxy-client');
const from = (headers: Record<string, string>, more: object = { frontProxyCertificate }) => noCredentials('/api', { headers, ...more });
const ada = { 'x-remote-user': 'ada' };

function open(): Authenticator {
  const [authenticator] = new PluginHost().add({ plugin, config: { allowedNames: ['front-proxy-client'] } }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return authenticator;
}

authnContract('authn-request-header', () => ({
  authenticator: open(),
  known: [
    { title: 'a user name alone', credentials: from(ada), identity: { name: 'ada', groups: ['system:authenticated'] } },
    {
      title: 'a user with UID, groups and extra',
      credentials: from(
        { ...ada, 'x-remote-uid': '7', 'x-remote-group': 'a, b', 'x-remote-extra-acme.com%2fproject': 'x' },
        {
          frontProxyCertificate,
          rawHeaders: [
            'X-Remote-Group',
            'a',
            'x-remote-group',
            'b',
            'X-Remote-User',
            'ada',
            'X-Remote-UID',
            '7',
            'X-Remote-Extra-Acme.com%2fproject',
            'x',
          ],
        },
      ),
      identity: { name: 'ada', uid: '7', groups: ['a', 'b', 'system:authenticated'], extra: { 'acme.com/project': ['x'] } },
    },
  ],
  invalid: [
    { title: 'no certificate', credentials: from(ada, {}) },
    { title: 'a certificate of the cluster CA', credentials: from(ada, { certificate: frontProxyCertificate }) },
    {
      title: 'another name of the front-proxy CA',
      credentials: from(ada, { frontProxyCertificate: certificate('O=system:masters\nCN=eve') }),
    },
    {
      title: 'the allowed name within another attribute',
      credentials: from(ada, { frontProxyCertificate: certificate('O=CN=front-proxy-client\nCN=eve') }),
    },
    { title: 'no user header', credentials: from({ 'x-remote-group': 'system:masters' }) },
    { title: 'an empty user header', credentials: from({ 'x-remote-user': ' ' }) },
  ],
  secrets: [],
}));

describe('header lines', () => {
  it('are one value each, which may contain commas', async () => {
    const lines = [
      'X-Remote-User',
      'cn=ada,o=a',
      'X-Remote-Group',
      'cn=devs,o=a',
      'X-Remote-Group',
      'ops',
      'X-Remote-Extra-Scopes',
      'x, y',
    ];
    const joined = { 'x-remote-user': 'cn=ada,o=a', 'x-remote-group': 'cn=devs,o=a, ops', 'x-remote-extra-scopes': 'x, y' };
    expect(await open().authenticate(from(joined, { frontProxyCertificate, rawHeaders: lines }))).toMatchObject({
      identity: { name: 'cn=ada,o=a', groups: ['cn=devs,o=a', 'ops', 'system:authenticated'], extra: { scopes: ['x, y'] } },
    });
  });
});

describe('extra headers', () => {
  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])('keep the key %s', async (key) => {
    const result = await open().authenticate(from({ ...ada, [`x-remote-extra-${key}`]: 'x', 'x-remote-extra-other': 'y' }));
    if (result.outcome !== 'authenticated') throw new Error(result.outcome);
    expect(Object.entries(result.identity.extra ?? {})).toEqual([
      [key, ['x']],
      ['other', ['y']],
    ]);
    expect(Object.getPrototypeOf(result.identity.extra)).toBe(Object.prototype);
  });

  it('abstains from a certificate of the front-proxy CA without user headers', async () => {
    expect(await open().authenticate(from({}))).toEqual({ outcome: 'abstained' });
  });
});
