import { failure } from '@oarlock/api/status';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { requestCertificate } from '@oarlock/cluster/pki/request-certificate';
import type { Client } from '@oarlock/spi/client';
import { describe, expect, it } from 'vitest';

const subject = { nodeName: 'n1' };
const clock = { monotonic: () => 0, sleep: async () => undefined };

/** A client whose requests are unavailable at every first call of a verb. The request is never signed: a read shows it as denied. */
function failingOnce(): { readonly client: Client; readonly calls: string[] } {
  const calls: string[] = [];
  const once = (verb: string) => {
    calls.push(verb);
    if (calls.filter((each) => each === verb).length === 1) throw failure('ServiceUnavailable', `${verb} is unavailable`);
  };
  const pending: CertificateSigningRequest = { metadata: { name: 'node-csr-1', resourceVersion: '1' } } as CertificateSigningRequest;
  const client = {
    create: async () => {
      once('create');
      return pending;
    },
    get: async () => {
      once('get');
      return { ...pending, status: { conditions: [{ type: 'Denied', status: 'True', message: 'seen' }] } };
    },
    async *watch() {
      once('watch');
      yield [];
    },
  };
  return { client: client as unknown as Client, calls };
}

describe('requestCertificate', () => {
  it('continues with the same request while the API server is unavailable', async () => {
    const { client, calls } = failingOnce();
    const signal = new AbortController().signal;
    const requested = requestCertificate({ client, purpose: 'client', subject, signal, retry: { clock } });
    await expect(requested).rejects.toThrow('the certificate request node-csr-1 is denied: seen');
    expect(calls).toEqual(['create', 'create', 'watch', 'get', 'get']);
  });

  it('fails with the first error without a retry', async () => {
    const { client, calls } = failingOnce();
    const signal = new AbortController().signal;
    await expect(requestCertificate({ client, purpose: 'client', subject, signal })).rejects.toThrow('create is unavailable');
    expect(calls).toEqual(['create']);
  });
});
