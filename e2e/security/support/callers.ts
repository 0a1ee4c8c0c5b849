import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import type { Item } from '../../harness/api.ts';
import type { Cluster } from '../../harness/cluster.ts';

const run = promisify(execFile);

export interface Credentials {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
}
export interface Reply {
  readonly status: number;
  readonly body: string;
}
export interface CallOptions {
  readonly body?: unknown;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A client of an API server with the credentials of one user. */
export class Caller {
  readonly #server: string;
  readonly #ca: string;
  readonly #credentials: Credentials;
  readonly #agent: Agent;

  /** @param maxSockets connections at the same time; with 1, each request waits for the one before and uses its connection */
  constructor(cluster: Cluster, credentials: Credentials, maxSockets = 16) {
    this.#server = cluster.api.server;
    this.#ca = cluster.api.tls.ca;
    this.#credentials = credentials;
    const { cert, key } = credentials;
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets,
      ca: this.#ca,
      ...(cert !== undefined && key !== undefined && { cert, key }),
    });
  }

  call(method: string, path: string, { body, type = 'application/json', headers = {} }: CallOptions = {}): Promise<Reply> {
    const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    const { token } = this.#credentials;
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, this.#server), {
        method,
        agent: this.#agent,
        timeout: 60_000,
        headers: {
          accept: 'application/json',
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(text !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
          ...headers,
        },
      });
      sent.once('error', reject).once('timeout', () => sent.destroy(new Error(`${method} ${path}: no response in time`)));
      sent.once('upgrade', (response, socket) => {
        socket.destroy();
        resolve({ status: response.statusCode ?? 0, body: '' });
      });
      sent.once('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.once('error', reject);
        response.once('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }));
      });
      sent.end(text);
    });
  }

  /** Sends a request head as it is, over HTTP/1.1, and returns the status; 0 if the server closes the connection without a response. */
  raw(head: string | Buffer): Promise<Reply> {
    const { hostname, port } = new URL(this.#server);
    const { cert, key } = this.#credentials;
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const tls = { ca: this.#ca, ALPNProtocols: ['http/1.1'], ...(cert !== undefined && key !== undefined && { cert, key }) };
      const socket = connect({ host: hostname, port: Number(port), ...tls }, () => socket.end(head));
      socket.setTimeout(60_000, () => socket.destroy(new Error('no response in time')));
      socket.on('data', (chunk) => chunks.push(chunk));
      socket.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve({ status: 0, body: '' }) : reject(error),
      );
      socket.once('close', () => {
        const text = Buffer.concat(chunks).toString('latin1');
        resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), body: text.split('\r\n\r\n').slice(1).join('\r\n\r\n') });
      });
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Issues a client certificate with the CA of a cluster. */
export async function clientCertificate(cluster: Cluster, commonName: string, organizations: readonly string[] = []): Promise<Credentials> {
  const directory = join(cluster.dir, 'users', commonName.replaceAll(/[^\w.-]/g, '_'));
  await mkdir(directory, { recursive: true });
  const at = (end: string) => join(directory, `client.${end}`);
  const subject = `${organizations.map((each) => `/O=${each}`).join('')}/CN=${commonName}`;
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await run('openssl', ['req', '-new', ...ec, '-keyout', at('key'), '-subj', subject, '-out', at('csr')]);
  await writeFile(at('ext'), 'extendedKeyUsage=clientAuth\n');
  const pki = join(cluster.dataDir, 'pki');
  const ca = ['-CA', join(pki, 'ca.crt'), '-CAkey', join(pki, 'ca.key'), '-set_serial', '7', '-extfile', at('ext')];
  await run('openssl', ['x509', '-req', '-in', at('csr'), ...ca, '-days', '2', '-out', at('crt')]);
  return { cert: await readFile(at('crt'), 'utf8'), key: await readFile(at('key'), 'utf8') };
}

export interface TokenSpec {
  readonly audiences?: readonly string[];
  readonly expirationSeconds?: number;
  readonly boundObjectRef?: {
    readonly kind: string;
    readonly apiVersion: string;
    readonly name: string;
    readonly uid?: string | undefined;
  };
}

/** Requests a token of a service account as the administrator. */
export async function serviceAccountToken(cluster: Cluster, namespace: string, account: string, spec: TokenSpec = {}): Promise<string> {
  const response = await cluster.api.json<Item & { readonly status: { readonly token: string } }>(
    'POST',
    `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
    { body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec } },
  );
  return response.status.token;
}
