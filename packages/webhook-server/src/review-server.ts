import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { serverTls } from '@oarlock/primitives/net/tls-policy';
import { ReviewError } from './reviews.ts';

/** The maximum size of a request body in bytes. A review contains the object, the old object and metadata. */
const maxBytes = 8 * 1024 * 1024;
const headersTimeoutMs = 10_000;
const requestTimeoutMs = 30_000;

export interface ReviewServerOptions {
  /** The port to listen on; 0 selects a free port. */
  readonly port: number;
  readonly address: string;
  /** The serving certificate in PEM. */
  readonly certificate: string;
  readonly key: string;
  /** The functions that answer reviews, by request path. */
  readonly handlers: ReadonlyMap<string, (review: unknown) => Promise<object>>;
  readonly log: Logger;
}

/** An HTTPS server for reviews. Also serves `/healthz`, and `/readyz` until `drain` is called. */
export class ReviewServer {
  readonly #options: ReviewServerOptions;
  readonly #server: Server;
  #ready = false;

  constructor(options: ReviewServerOptions) {
    this.#options = options;
    const { certificate: cert, key } = options;
    this.#server = createServer(
      { cert, key, ...serverTls, ...listenerDeadlines, headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs },
      (request, response) => {
        this.#handle(request, response).catch((error: unknown) => {
          options.log.error({ err: error }, 'a review failed');
          if (response.headersSent) response.destroy();
          else end(response, 500, errorText(error));
        });
      },
    );
    boundConnections(this.#server);
  }

  /** Starts the server and returns its port. */
  async start(): Promise<number> {
    const { port, address } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, address, resolve);
    });
    this.#ready = true;
    return (this.#server.address() as AddressInfo).port;
  }

  /** Replaces the certificate for new connections. */
  updateCertificate(certificate: string, key: string): void {
    this.#server.setSecureContext({ cert: certificate, key, ...serverTls });
  }

  /** Makes `/readyz` fail, so that the API server stops sending reviews. The server still answers all reviews that it receives. */
  drain(): void {
    this.#ready = false;
  }

  async stop(): Promise<void> {
    this.#ready = false;
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeIdleConnections();
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').replace(/\?.*$/, '');
    if (request.method === 'GET' && path === '/healthz') return end(response, 200, 'ok');
    if (request.method === 'GET' && path === '/readyz') return this.#ready ? end(response, 200, 'ok') : end(response, 503, 'stopping');
    const answer = this.#options.handlers.get(path);
    if (answer === undefined) return end(response, 404, 'not found');
    if (request.method !== 'POST') return end(response, 405, 'reviews must be sent with POST');
    const body = await read(request);
    if (body === undefined) return end(response, 413, `the review is larger than ${maxBytes} bytes`);
    const review = parse(body);
    if (review === undefined) return end(response, 400, 'the body is not JSON');
    try {
      const text = JSON.stringify(await answer(review));
      if (!this.#ready) response.setHeader('connection', 'close');
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text);
    } catch (error) {
      if (!(error instanceof ReviewError)) throw error;
      end(response, 400, error.message);
    }
  }
}

/** Ends an exchange that is no answered review, and its connection: clients that send no reviews must not hold the connections of API servers. */
function end(response: ServerResponse, code: number, text: string): void {
  response.writeHead(code, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${text}\n`);
}

/** Reads the request body; returns undefined if the body is larger than `maxBytes`. */
async function read(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // the client receives the status 400
  }
}
