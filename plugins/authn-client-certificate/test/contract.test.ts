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
let directory: string;
const made = new Map<string, Promise<X509Certificate>>();

/** Certificates as openssl writes them; whether TLS trusts them is not this plugin's affair. */
function certificate(...args: string[]): Promise<X509Certificate> {
  const known = made.get(args.join('\u0000'));
  if (known !== undefined) return known;
  const fresh = (async () => {
    const name = join(directory, `c${made.size}`);
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
  made.set(args.join('\u0000'), fresh);
  return fresh;
}
const subject = (text: string, ...more: string[]) => certificate('-utf8', '-subj', text, ...more);
const shows = (shown: X509Certificate) => noCredentials('/api', { certificate: shown });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'client-certificate-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

authnContract('authn-client-certificate', async () => {
  const admin = await subject('/O=system:masters/O=ops/CN=kubernetes-admin');
  const node = await subject('/O=system:nodes/CN=system:node:n1');
  return {
    authenticator: new ClientCertificateAuthenticator(),
    known: [
      {
        title: 'an administrator',
        credentials: shows(admin),
        identity: {
          name: 'kubernetes-admin',
          groups: ['system:masters', 'ops', 'system:authenticated'],
          extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${admin.fingerprint256.replaceAll(':', '').toLowerCase()}`] },
        },
      },
      { title: 'a node', credentials: shows(node), identity: { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] } },
    ],
    invalid: [{ title: 'no common name', credentials: shows(await subject('/O=system:masters')) }],
    secrets: [],
  };
});

describe('authn-client-certificate', () => {
  const ask = async (shown: X509Certificate) => new ClientCertificateAuthenticator().authenticate({ certificate: shown });
  const identity = async (shown: X509Certificate) => {
    const result = await ask(shown);
    return result.outcome === 'authenticated' ? { name: result.identity.name, groups: result.identity.groups } : result;
  };

  it('takes names as they are: marks, blanks, letters of any script', async () => {
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

  it("takes no group out of another attribute's value", async () => {
    expect(await identity(await subject('/OU=O=system:masters/L=x\nO=system:masters/CN=mallory'))).toEqual({
      name: 'mallory',
      groups: ['system:authenticated'],
    });
    expect(await identity(await subject('/CN=mallory\nO=system:masters'))).toEqual({
      name: 'mallory\nO=system:masters',
      groups: ['system:authenticated'],
    });
  });

  it('takes one attribute out of several in one RDN', async () => {
    expect(await identity(await subject('/CN=eve+O=readers'))).toEqual({ name: 'eve', groups: ['readers', 'system:authenticated'] });
  });

  it('works a certificate out once', async () => {
    const shown = await subject('/CN=once');
    const authenticator = new ClientCertificateAuthenticator();
    expect(authenticator.authenticate({ certificate: shown })).toBe(authenticator.authenticate({ certificate: shown }));
  });
});
