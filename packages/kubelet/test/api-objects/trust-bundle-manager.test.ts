import { clusterTrustBundlesV1beta1 } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrustBundleManager } from '../../src/api-objects/trust-bundle-manager.ts';

const certificate = (body: string) => `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;

describe('TrustBundleManager', () => {
  let api: MemoryApi;
  let trust: TrustBundleManager;
  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
    trust = new TrustBundleManager(api.client(), api.informers, new AbortController().signal);
  });
  afterEach(() => api.stop());
  const bundle = (name: string, trustBundle: string, signerName?: string, labels: Record<string, string> = {}) =>
    api.seed(clusterTrustBundlesV1beta1, {
      metadata: { name, labels },
      spec: { trustBundle, ...(signerName !== undefined && { signerName }) },
    });
  const text = async (source: Parameters<TrustBundleManager['certificates']>[0]) => (await trust.certificates(source))?.toString();

  it('returns the certificates of a bundle by name, without surrounding text', async () => {
    bundle('roots', `a note\n${certificate('QUFBQQ==')}`);
    expect(await text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('QUFBQQ=='));
    await expect(trust.certificates({ name: 'none', path: 'ca.pem' })).rejects.toThrow(
      'clustertrustbundle.certificates.k8s.io "none" not found',
    );
    expect(await text({ name: 'none', path: 'ca.pem', optional: true })).toBeUndefined();
  });

  it('returns the deduplicated certificates of all bundles of a signer that the labels select', async () => {
    const long = 'Qk'.repeat(40);
    bundle('example.com:foo:one', certificate(long), 'example.com/foo', { live: 'yes' });
    bundle(
      'example.com:foo:two',
      `${certificate('QUFBQQ==')}${certificate(`${long.slice(0, 64)}\n${long.slice(64)}`)}`,
      'example.com/foo',
      {
        live: 'yes',
      },
    );
    bundle('example.com:foo:old', certificate('T0xE'), 'example.com/foo');
    bundle('example.com:bar:one', certificate('QkFS'), 'example.com/bar', { live: 'yes' });
    const wrapped = certificate(`${long.slice(0, 64)}\n${long.slice(64)}`);
    const source = { signerName: 'example.com/foo', path: 'ca.pem' };
    expect(await text({ ...source, labelSelector: { matchLabels: { live: 'yes' } } })).toBe(certificate('QUFBQQ==') + wrapped);
    expect(await text({ ...source, labelSelector: {} })).toBe(certificate('QUFBQQ==') + wrapped + certificate('T0xE'));
    await expect(trust.certificates(source)).rejects.toThrow('matched zero ClusterTrustBundles');
  });

  it('notifies listeners of changes until they are released', async () => {
    let notifications = 0;
    const release = trust.watch(() => {
      notifications += 1;
    });
    bundle('roots', certificate('QUFBQQ=='));
    await trust.certificates({ name: 'roots', path: 'ca.pem' });
    const before = notifications;
    bundle('roots', certificate('QkJCQg=='));
    await expect.poll(() => notifications).toBeGreaterThan(before);
    expect(await text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('QkJCQg=='));
    release();
    const after = notifications;
    bundle('roots', certificate('Q0NDQw=='));
    await expect.poll(() => text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('Q0NDQw=='));
    expect(notifications).toBe(after);
  });

  it('rejects if the server does not serve the API', async () => {
    const client = Object.assign(Object.create(api.client()) as ReturnType<MemoryApi['client']>, {
      list: () => Promise.reject(failure('NotFound', 'the server could not find the requested resource')),
    });
    const without = new TrustBundleManager(client, api.informers, new AbortController().signal);
    await expect(without.certificates({ name: 'roots', path: 'ca.pem' })).rejects.toThrow(/does not serve clustertrustbundles/);
  });
});
