import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { failure, StatusError } from '@oarlock/api/status';
import type { Logger } from '@oarlock/primitives/logger';
import { serverTls } from '@oarlock/primitives/net/tls-policy';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { MetricsApi } from './metrics-api.ts';

/** The certificates of the API servers that proxy requests, from the ConfigMap kube-system/extension-apiserver-authentication. */
export interface FrontProxy {
  /** The CA certificates in PEM. */
  readonly ca: string;
  /** The accepted common names. An empty list accepts every certificate of the CA. */
  readonly names: readonly string[];
}
const maxConnections = 512;

/** The HTTPS server of the metrics API. Accepts connections only from the cluster's API server, which has authorized the requests. */
export class MetricsServer {
  readonly #api: MetricsApi;
  readonly #log: Logger;
  #server: Server | undefined;
  #frontProxy: FrontProxy | undefined;
  #keyPair: KeyPair | undefined;

  constructor(api: MetricsApi, log: Logger) {
    this.#api = api;
    this.#log = log;
  }

  get frontProxy(): FrontProxy | undefined {
    return this.#frontProxy;
  }
  get isListening(): boolean {
    return this.#server !== undefined;
  }

  /** Replaces the accepted front proxy certificates. */
  setFrontProxy(front: FrontProxy): void {
    this.#frontProxy = front;
    this.#updateContext();
  }

  /** Replaces the certificate and key of new connections. */
  setKeyPair(pair: KeyPair): void {
    if (pair.certificate === this.#keyPair?.certificate) return;
    this.#keyPair = pair;
    this.#updateContext();
  }

  #updateContext(): void {
    if (this.#keyPair === undefined) return;
    const { certificate: cert, key } = this.#keyPair;
    this.#server?.setSecureContext({ cert, key, ...(this.#frontProxy && { ca: this.#frontProxy.ca }), ...serverTls });
  }

  /** Starts to listen and returns the port. @throws Error if the port is in use */
  async listen(pair: KeyPair, host: string, port: number): Promise<number> {
    this.#keyPair = pair;
    const server = createServer({
      cert: pair.certificate,
      key: pair.key,
      ...(this.#frontProxy && { ca: this.#frontProxy.ca }),
      requestCert: true,
      rejectUnauthorized: false,
      ...serverTls,
      ...listenerDeadlines,
    });
    boundConnections(server, { maxConnections });
    server.on('request', (request, response) => this.#answer(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, () => {
        server.off('error', reject);
        resolve();
      });
    });
    server.on('error', (error) => this.#log.warn({ err: error }, 'the socket of the metrics API failed'));
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    server.closeAllConnections();
    await closed;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    let code = 200;
    let body: object;
    try {
      if (!this.#isFrontProxy(request.socket as TLSSocket)) throw failure('Unauthorized', 'Unauthorized');
      body = this.#api.handle(request.method ?? '', new URL(request.url ?? '/', 'https://metrics'));
    } catch (error) {
      if (!(error instanceof StatusError)) this.#log.error({ err: error }, 'the metrics API failed to handle a request');
      const status = error instanceof StatusError ? error : failure('InternalError', 'the metrics could not be read');
      code = status.code;
      body = status.status;
    }
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(request.method === 'HEAD' ? '' : JSON.stringify(body));
  }

  #isFrontProxy(socket: TLSSocket): boolean {
    if (!socket.authorized || this.#frontProxy === undefined) return false;
    const certificate = socket.getPeerCertificate();
    if (Object.keys(certificate).length === 0) return false; // a connection without a client certificate
    const { names } = this.#frontProxy;
    const { CN } = certificate.subject;
    return names.length === 0 || (typeof CN === 'string' && names.includes(CN));
  }
}
