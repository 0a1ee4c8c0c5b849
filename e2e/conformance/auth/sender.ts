import { execFile } from 'node:child_process';
import { webcrypto } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import type { Answer, Api } from '../../harness/api.ts';
import { until } from '../../harness/until.ts';

x509.cryptoProvider.set(webcrypto);
const openssl = promisify(execFile);
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** The credentials of a request; tests send no others. */
export interface Shown {
  readonly cert?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends one request on a new connection over HTTPS. */
export function send(api: Api, method: string, path: string, { cert, key, headers = {} }: Shown = {}, body?: object): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const call = request(new URL(path, api.server), {
      method,
      agent: false,
      ca: api.tls.ca,
      ...(cert !== undefined && { cert, key }),
      headers: { ...headers, ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }) },
    });
    call.once('error', reject).once('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject).once('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString('utf8') });
      });
    });
    call.end(text);
  });
}

export const bearer = (token: string): Shown => ({ headers: { authorization: `Bearer ${token}` } });

/** Returns `name [groups]` as the server authenticates the sender, or the status code. */
export async function whoIs(api: Api, credentials: Shown): Promise<string> {
  const { status, body } = await send(api, 'POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', credentials, {});
  if (status !== 201) return String(status);
  const { userInfo } = (JSON.parse(body) as { status: { userInfo: { username: string; groups: string[] } } }).status;
  return `${userInfo.username} [${userInfo.groups.join(' ')}]`;
}

/** Obtains a client certificate of the cluster's CA through a request that an administrator approves. */
export async function certificateOf(api: Api, name: string, subject: string): Promise<Required<Pick<Shown, 'cert' | 'key'>>> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({ name: subject, keys, signingAlgorithm: algorithm });
  const path = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
  const created = await api.renew<{ metadata: { name: string }; status?: object }>(path, {
    ...{ apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest' },
    metadata: { name },
    ...{
      spec: {
        signerName: 'kubernetes.io/kube-apiserver-client',
        usages: ['digital signature', 'client auth'],
        request: Buffer.from(csr.toString('pem')).toString('base64'),
      },
    },
  });
  const conditions = [{ type: 'Approved', status: 'True', reason: 'Test', message: 'test' }];
  await api.json('PUT', `${path}/${name}/approval`, { body: { ...created, status: { conditions } } });
  const certificate = await until('the certificate', async () => {
    const { status } = await api.get<{ status?: { certificate?: string } }>(`${path}/${name}`);
    return status?.certificate;
  });
  const key = x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY');
  return { cert: Buffer.from(certificate, 'base64').toString('utf8'), key };
}

/** Signs a client certificate with a CA of the data directory, as an administrator does for an authenticating proxy. */
export async function certificateSignedBy(
  ca: string,
  directory: string,
  commonName: string,
): Promise<Required<Pick<Shown, 'cert' | 'key'>>> {
  const at = (end: string) => join(directory, `${commonName}.${end}`);
  await mkdir(directory, { recursive: true });
  await writeFile(at('ext'), 'extendedKeyUsage=clientAuth\n');
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await openssl('openssl', ['req', '-new', ...ec, '-keyout', at('key'), '-subj', `/CN=${commonName}`, '-out', at('csr')]);
  const issuer = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`, '-set_serial', String(Date.now()), '-extfile', at('ext')];
  await openssl('openssl', ['x509', '-req', '-in', at('csr'), ...issuer, '-days', '2', '-out', at('crt')]);
  return { cert: await readFile(at('crt'), 'utf8'), key: await readFile(at('key'), 'utf8') };
}

export interface JsonService {
  readonly url: string;
  close(): void;
}
/** Starts a service on this machine that responds to JSON with JSON. */
export async function jsonService(answer: (body: unknown, path: string) => object | Promise<object>): Promise<JsonService> {
  const server: Server = createServer((message, response) => {
    let text = '';
    message.on('data', (chunk: Buffer) => (text += chunk.toString()));
    message.on('end', () => {
      void Promise.resolve(answer(text === '' ? {} : (JSON.parse(text) as unknown), message.url ?? '')).then((body) =>
        response.end(JSON.stringify(body)),
      );
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
