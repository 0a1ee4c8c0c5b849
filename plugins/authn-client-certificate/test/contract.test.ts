import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { authnContract, noCredentials } from '@oarlock/spi/authn/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ClientCertificateAuthenticator } from '../src/plugin.ts';

const run = promisify(execFile);
const noRevocations = { unknown: undefined, includes: () => false };
let directory: string;
const certificates = new Map<string, Promise<X509Certificate>>();

/** Creates a self-signed certificate with openssl. The API server verifies chains, not the plugin. */
function certificate(...args: string[]): Promise<X509Certificate> {
  const existing = certificates.get(args.join('\u0000'));
  if (existing !== undefined) return existing;
  const created = (async () => {
    const name = join(directory, `c${certificates.size}`);
    await run('openssl', [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '30',
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.crt`,
      ...args,
    ]);
    return new X509Certificate(await readFile(`${name}.crt`));
  })();
  certificates.set(args.join('\u0000'), created);
  return created;
}
const subject = (text: string, ...more: string[]) => certificate('-utf8', '-subj', text, ...more);
const presenting = (clientCertificate: X509Certificate) => noCredentials('/api', { certificate: clientCertificate });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'client-certificate-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

authnContract('authn-client-certificate', async () => {
  const admin = await subject('/O=system:masters/O=ops/CN=kubernetes-admin');
  const node = await subject('/O=system:nodes/CN=system:node:n1');
  return {
    authenticator: new ClientCertificateAuthenticator(noRevocations),
    known: [
      {
        title: 'an administrator',
        credentials: presenting(admin),
        identity: {
          name: 'kubernetes-admin',
          groups: ['system:masters', 'ops', 'system:authenticated'],
          extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${admin.fingerprint256.replaceAll(':', '').toLowerCase()}`] },
        },
      },
      {
        title: 'a node',
        credentials: presenting(node),
        identity: { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] },
      },
    ],
    invalid: [{ title: 'no common name', credentials: presenting(await subject('/O=system:masters')) }],
    secrets: [],
  };
});

describe('authn-client-certificate', () => {
  const authenticate = async (clientCertificate: X509Certificate) =>
    new ClientCertificateAuthenticator(noRevocations).authenticate({ certificate: clientCertificate });
  const identity = async (clientCertificate: X509Certificate) => {
    const result = await authenticate(clientCertificate);
    return result.outcome === 'authenticated' ? { name: result.identity.name, groups: result.identity.groups } : result;
  };

  it('keeps punctuation, spaces and letters of any script in names', async () => {
    expect(await identity(await subject('/CN=a, b \\+ c = d; "e" <f> #g'))).toEqual({
      name: 'a, b + c = d; "e" <f> #g',
      groups: ['system:authenticated'],
    });
    expect(await identity(await subject('/O=Zürich/CN=Ærøskøbing 東京'))).toEqual({
      name: 'Ærøskøbing 東京',
      groups: ['Zürich', 'system:authenticated'],
    });
    expect(await identity(await subject('/CN= leading and trailing '))).toEqual({
      name: ' leading and trailing ',
      groups: ['system:authenticated'],
    });
    expect(await identity(await subject('/CN=back\\\\slash'))).toEqual({ name: 'back\\slash', groups: ['system:authenticated'] });
  });

  it('reads no group from the value of another attribute', async () => {
    expect(await identity(await subject('/OU=O=system:masters/L=x\nO=system:masters/CN=mallory'))).toEqual({
      name: 'mallory',
      groups: ['system:authenticated'],
    });
    expect(await identity(await subject('/CN=mallory\nO=system:masters'))).toEqual({
      name: 'mallory\nO=system:masters',
      groups: ['system:authenticated'],
    });
  });

  it('reads several attributes of one RDN', async () => {
    expect(await identity(await subject('/CN=eve+O=readers'))).toEqual({ name: 'eve', groups: ['readers', 'system:authenticated'] });
  });

  it('parses a certificate once', async () => {
    const clientCertificate = await subject('/CN=once');
    const authenticator = new ClientCertificateAuthenticator(noRevocations);
    expect(authenticator.authenticate({ certificate: clientCertificate })).toBe(
      authenticator.authenticate({ certificate: clientCertificate }),
    );
  });
});
