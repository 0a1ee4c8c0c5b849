import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import type { CertificateRequest, ClusterKeys } from '@oarlock/spi/cluster';
import { describe, expect, it } from 'vitest';
import { KubeletClient } from '../src/kubelet-client.ts';

describe('client of kubelets', () => {
  it('requests a certificate without groups', async () => {
    const requests: CertificateRequest[] = [];
    const keys: ClusterKeys = {
      caBundle: '',
      issue: (request) => {
        requests.push(request);
        return Promise.reject(new Error('no certificate in this test'));
      },
      sign: () => Promise.reject(new Error('not called in this test')),
      serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
    };
    const client = new KubeletClient({ keys, clock: new FakeClock(), log: silentLogger, timeoutMs: 1000 });
    await expect(client.scrape({ host: '127.0.0.1', port: 1 }, AbortSignal.timeout(1000))).rejects.toThrow('no certificate in this test');
    expect(requests).toEqual([{ commonName: 'system:metrics-server', usages: ['client'] }]);
  });
});
