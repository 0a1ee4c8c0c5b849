import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from './http-connection.ts';

/** Sockets that wait for the next request, and requests (watches count) at once. */
const keptSockets = 32;
const maxSockets = 1024;

/** HTTP/1.1 for servers that speak nothing newer: a socket for each request under way, kept for the next. */
export class Http1Connection implements HttpConnection {
  readonly #url: URL;
  readonly #agent: PlainAgent;
  #open = true;

  constructor(url: URL, tls: ConnectionOptions) {
    this.#url = url;
    const options = { keepAlive: true, maxSockets, maxFreeSockets: keptSockets };
    this.#agent = url.protocol === 'https:' ? new TlsAgent({ ...tls, ALPNProtocols: ['http/1.1'], ...options }) : new PlainAgent(options);
  }

  get usable(): boolean {
    return this.#open;
  }
  get gone(): boolean {
    return !this.#open;
  }

  request({ method, path, headers, body, signal }: HttpRequest): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const send = this.#url.protocol === 'https:' ? tlsRequest : plainRequest;
      const length = body === undefined ? {} : { 'content-length': String(body.length) };
      const request = send({
        protocol: this.#url.protocol,
        hostname: this.#url.hostname.replace(/^\[|\]$/g, ''),
        port: this.#url.port,
        method,
        path,
        headers: { ...headers, ...length },
        agent: this.#agent,
      });
      const abort = () => {
        reject(signal?.reason);
        request.destroy();
      };
      signal?.addEventListener('abort', abort, { once: true });
      request.once('close', () => signal?.removeEventListener('abort', abort));
      request.on('error', (cause) => reject(transportError(cause, request.reusedSocket)));
      request.once('response', (response) =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: readBody(response, signal),
          cancel: () => {
            request.destroy();
          },
        }),
      );
      request.end(body);
    });
  }

  destroy(): void {
    this.#open = false;
    this.#agent.destroy();
  }
}

async function* readBody(response: IncomingMessage, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of response) yield chunk as Buffer;
  } catch (cause) {
    signal?.throwIfAborted();
    throw transportError(cause, false);
  }
}

function transportError(cause: unknown, reusedSocket: boolean): TransportError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const message = cause instanceof Error ? cause.message : String(cause);
  if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)$/.test(code))
    return new TransportError('ConnectFailed', message, { cause });
  // The server closed a kept socket at the moment of its reuse: it has not read the request.
  return new TransportError(code === 'ECONNRESET' && reusedSocket ? 'Refused' : 'Lost', message, { cause });
}
