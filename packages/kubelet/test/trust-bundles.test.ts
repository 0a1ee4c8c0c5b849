import { clusterTrustBundlesV1beta1 } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrustBundles } from '../src/volumes/trust-bundles.ts';

const certificate = (body: string) => `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;

describe('trust anchors for pods', () => {
  let api: MemoryApi;
  let trust: TrustBundles;
  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
    trust = new TrustBundles(api.client(), api.informers, new AbortController().signal);
  });
  afterEach(() => api.stop());
  const bundle = (name: string, trustBundle: string, signerName?: string, labels: Record<string, string> = {}) =>
    api.seed(clusterTrustBundlesV1beta1, {
      metadata: { name, labels },
      spec: { trustBundle, ...(signerName !== undefined && { signerName }) },
    });
  const text = async (source: Parameters<TrustBundles['certificates']>[0]) => (await trust.certificates(source))?.toString();

  it('are those of the bundle that is named, without what stands around them', async () => {
    bundle('roots', `a note\n${certificate('QUFBQQ==')}`);
    expect(await text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('QUFBQQ=='));
    await expect(trust.certificates({ name: 'none', path: 'ca.pem' })).rejects.toThrow(
      'clustertrustbundle.certificates.k8s.io "none" not found',
    );
    expect(await text({ name: 'none', path: 'ca.pem', optional: true })).toBeUndefined();
  });

  it('are those of all bundles of a signer that the labels select, each once', async () => {
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

  it('tells who holds them of changes, until it lets go', async () => {
    let told = 0;
    const release = trust.hold(() => {
      told += 1;
    });
    bundle('roots', certificate('QUFBQQ=='));
    await trust.certificates({ name: 'roots', path: 'ca.pem' });
    const before = told;
    bundle('roots', certificate('QkJCQg=='));
    await expect.poll(() => told).toBeGreaterThan(before);
    expect(await text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('QkJCQg=='));
    release();
    const after = told;
    bundle('roots', certificate('Q0NDQw=='));
    await expect.poll(() => text({ name: 'roots', path: 'ca.pem' })).toBe(certificate('Q0NDQw=='));
    expect(told).toBe(after);
  });

  it('says that a server has no such API, rather than to wait for it', async () => {
    const client = Object.assign(Object.create(api.client()) as ReturnType<MemoryApi['client']>, {
      list: () => Promise.reject(failure('NotFound', 'the server could not find the requested resource')),
    });
    const without = new TrustBundles(client, api.informers, new AbortController().signal);
    await expect(without.certificates({ name: 'roots', path: 'ca.pem' })).rejects.toThrow(/does not serve clustertrustbundles/);
  });
});
