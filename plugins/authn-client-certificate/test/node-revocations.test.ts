import type { X509Certificate } from 'node:crypto';
import { configMaps } from '@oarlock/api/resources';
import { removedNodes } from '@oarlock/spi/authn';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NodeRevocations } from '../src/node-revocations.ts';
import { ClientCertificateAuthenticator } from '../src/plugin.ts';

/** A certificate of a user, valid from a time. */
const certificate = (commonName: string, validFrom: string) =>
  ({ subject: `O=system:nodes\nCN=${commonName}`, validFrom, fingerprint256: 'AA:BB' }) as X509Certificate;

describe('certificates of removed nodes', () => {
  let api: ReturnType<typeof memoryApi>;
  let authenticator: ClientCertificateAuthenticator;
  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
    authenticator = new ClientCertificateAuthenticator(new NodeRevocations(api.informers));
  });
  afterEach(() => api.stop());
  const outcome = async (commonName: string, validFrom: string) =>
    (await authenticator.authenticate({ certificate: certificate(commonName, validFrom) })).outcome;
  const remove = async (data: Readonly<Record<string, string>>) => {
    await api.client().create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...removedNodes }, data });
  };
  const rejectedSoon = (commonName: string, validFrom: string) =>
    vi.waitFor(async () => expect(await outcome(commonName, validFrom)).toBe('rejected'));

  it('are rejected if they were issued before the removal, also on a connection that was authenticated before', async () => {
    const connected = certificate('system:node:n1', 'Nov 24 10:00:00 2026 GMT');
    expect((await authenticator.authenticate({ certificate: connected })).outcome).toBe('authenticated');
    await remove({ n1: '2026-11-24T12:00:00.000Z' });
    await rejectedSoon('system:node:n1', 'Nov 24 12:00:00 2026 GMT');
    expect(await authenticator.authenticate({ certificate: connected })).toMatchObject({
      outcome: 'rejected',
      reason: 'the node n1 was removed from the cluster',
    });
  });

  it('are accepted if the node obtained them later; other nodes and users are unaffected', async () => {
    await remove({ n1: '2026-11-24T12:00:00.000Z' });
    await rejectedSoon('system:node:n1', 'Nov 24 11:59:59 2026 GMT');
    expect(await outcome('system:node:n1', 'Nov 24 12:00:01 2026 GMT')).toBe('authenticated');
    expect(await outcome('system:node:n2', 'Nov 24 10:00:00 2026 GMT')).toBe('authenticated');
    expect(await outcome('n1', 'Nov 24 10:00:00 2026 GMT')).toBe('authenticated');
  });

  it('are rejected whenever they were issued, if the time in the list is invalid', async () => {
    await remove({ n1: 'yesterday' });
    await rejectedSoon('system:node:n1', 'Nov 24 12:00:01 2026 GMT');
  });
});
