import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  certificatesWithout,
  mergeAuthenticationInfo,
  type ClusterAuthenticationInfo,
} from '../../src/aggregation/cluster-authentication-info.ts';
import { testKeys } from '../support/keys.ts';

const now = Date.now();
const dayMs = 86_400_000;
const pem = (text: string) => new X509Certificate(text).toString();
let cluster: string;
let front: string;
let otherCluster: string;
let otherFront: string;
let own: ClusterAuthenticationInfo;
beforeAll(async () => {
  const [here, there] = await Promise.all([testKeys('a'), testKeys('b')]);
  [cluster, front] = [pem(here.caBundle), pem(here.frontProxy.caBundle)];
  [otherCluster, otherFront] = [pem(there.caBundle), pem(there.frontProxy.caBundle)];
  own = { clientCa: cluster, requestHeaderCa: front, requestHeaderAllowedNames: ['front-proxy-client'] };
});

describe('mergeAuthenticationInfo', () => {
  it('publishes the data of one API server', () => {
    expect(mergeAuthenticationInfo({}, own, { now })).toEqual({
      'client-ca-file': cluster,
      'requestheader-client-ca-file': front,
      'requestheader-allowed-names': '["front-proxy-client"]',
      'requestheader-extra-headers-prefix': '["X-Remote-Extra-"]',
      'requestheader-group-headers': '["X-Remote-Group"]',
      'requestheader-uid-headers': '["X-Remote-Uid"]',
      'requestheader-username-headers': '["X-Remote-User"]',
    });
  });

  it('keeps the data of other API servers and does not change when it is repeated', () => {
    const others = mergeAuthenticationInfo(
      {},
      { clientCa: otherCluster, requestHeaderCa: otherFront, requestHeaderAllowedNames: ['aggregator'] },
      { now },
    );
    const merged = mergeAuthenticationInfo({ ...others, 'requestheader-username-headers': '["X-User"]' }, own, { now });
    expect(merged).toMatchObject({
      'client-ca-file': otherCluster + cluster,
      'requestheader-client-ca-file': otherFront + front,
      'requestheader-allowed-names': '["aggregator","front-proxy-client"]',
      'requestheader-username-headers': '["X-User","X-Remote-User"]',
    });
    expect(mergeAuthenticationInfo(merged, own, { now })).toEqual(merged);
  });

  it('lists a certificate once, however it is formatted', () => {
    const existing = { 'client-ca-file': `# comment\n${cluster.trimEnd()}\n\n${cluster.replaceAll('\n', '\r\n')}` };
    expect(mergeAuthenticationInfo(existing, own, { now })['client-ca-file']).toBe(cluster);
  });

  it('drops removed certificates', () => {
    const existing = { 'client-ca-file': otherCluster, 'requestheader-client-ca-file': cluster + otherFront };
    const removed = { clientCa: otherCluster, requestHeaderCa: cluster };
    expect(mergeAuthenticationInfo(existing, own, { now, removed })).toMatchObject({
      'client-ca-file': cluster,
      'requestheader-client-ca-file': otherFront + front,
    });
  });

  it('drops expired certificates', () => {
    const later = now + 40 * dayMs; // the CAs of these tests are valid for 30 days
    expect(mergeAuthenticationInfo({ 'client-ca-file': otherCluster }, own, { now: later })['client-ca-file']).toBe('');
  });

  it.each([
    ['text', { 'client-ca-file': 'x', 'requestheader-allowed-names': 'x' }],
    ['a broken certificate', { 'client-ca-file': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n' }],
    ['JSON of other types', { 'requestheader-allowed-names': '{"__proto__":["x"]}', 'requestheader-group-headers': '[1,null,{}]' }],
  ])('replaces %s', (_, existing) => {
    expect(mergeAuthenticationInfo(existing as Record<string, string>, own, { now })).toEqual(mergeAuthenticationInfo({}, own, { now }));
  });
});

describe('certificatesWithout', () => {
  it('returns the certificates that only the first bundle has', () => {
    expect(certificatesWithout(cluster + front, front)).toBe(cluster);
    expect(certificatesWithout(cluster, '')).toBe(cluster);
  });
});
