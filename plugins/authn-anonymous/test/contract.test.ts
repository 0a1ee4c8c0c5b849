import { PluginHost } from '@oarlock/kernel/plugin-host';
import { anonymous, Authn } from '@oarlock/spi/authn';
import { authnContract, noCredentials } from '@oarlock/spi/authn/contract';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const make = (config: unknown = {}) => {
  const [authenticator] = new PluginHost().add({ plugin, config }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return authenticator;
};

authnContract(
  'authn-anonymous',
  () => ({
    authenticator: make(),
    known: [],
    invalid: [{ title: 'another path', credentials: noCredentials('/api/v1/pods') }],
    secrets: [],
  }),
  {
    anonymousOn: ['/livez', '/readyz', '/healthz', '/version', '/oarlock/v1/ca'],
  },
);
authnContract('authn-anonymous on every path', () => ({ authenticator: make({ paths: [] }), known: [], invalid: [], secrets: [] }), {
  anonymousOn: ['/livez', '/api/v1/pods', '/'],
});

describe('authn-anonymous', () => {
  it('compares paths exactly', async () => {
    const authenticator = make({ paths: ['/healthz'] });
    expect(await authenticator.authenticate(noCredentials('/healthz'))).toEqual({ outcome: 'authenticated', identity: anonymous });
    for (const path of ['/healthz/', '/healthz/etcd', '/HEALTHZ', '/healthz?verbose', '//healthz', '/livez'])
      expect(await authenticator.authenticate(noCredentials(path)), path).toEqual({ outcome: 'abstained' });
  });

  it('rejects a configuration with an invalid path', () => {
    expect(new PluginHost().add({ plugin, config: { paths: ['healthz'] } }).check()).toMatchObject([
      { code: 'ConfigInvalid', path: 'paths.0' },
    ]);
    expect(new PluginHost().add({ plugin, config: { path: '/healthz' } }).check()).toMatchObject([
      { code: 'ConfigInvalid', message: 'authn-anonymous: unknown key path' },
    ]);
  });
});
