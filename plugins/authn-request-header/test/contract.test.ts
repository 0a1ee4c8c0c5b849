import type { X509Certificate } from 'node:crypto';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, noCredentials } from '@oarlock/spi/authn/contract';
import plugin from '../src/plugin.ts';

// the server has verified it; only its subject is read here
const certificate = (subject: string) => ({ subject }) as X509Certificate;
const proxy = certificate('O=proxies\nCN=front-proxy-client');
const from = (headers: Record<string, string>, more: object = { certificate: proxy }) => noCredentials('/api', { headers, ...more });
const ada = { 'x-remote-user': 'ada' };

authnContract('authn-request-header', () => {
  const [authenticator] = new PluginHost().add({ plugin, config: { allowedNames: ['front-proxy-client'] } }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return {
    authenticator,
    known: [
      { title: 'a user', credentials: from(ada), identity: { name: 'ada', groups: ['system:authenticated'] } },
      {
        title: 'all of it',
        credentials: from({ ...ada, 'x-remote-uid': '7', 'x-remote-group': 'a, b', 'x-remote-extra-acme.com%2fproject': 'x' }),
        identity: { name: 'ada', uid: '7', groups: ['a', 'b', 'system:authenticated'], extra: { 'acme.com/project': ['x'] } },
      },
    ],
    invalid: [
      { title: 'no certificate', credentials: from(ada, {}) },
      { title: 'another certificate', credentials: from(ada, { certificate: certificate('O=system:masters\nCN=eve') }) },
      { title: 'a name that only looks alike', credentials: from(ada, { certificate: certificate('O=CN=front-proxy-client\nCN=eve') }) },
      { title: 'no user', credentials: from({ 'x-remote-group': 'system:masters' }) },
      { title: 'an empty user', credentials: from({ 'x-remote-user': ' ' }) },
    ],
    secrets: [],
  };
});
