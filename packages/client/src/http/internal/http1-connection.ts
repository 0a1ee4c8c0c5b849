import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from '../connection.ts';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';

/** Limit of idle sockets that are kept for later requests. */
const maxFreeSockets = 32;
/** Limit of concurrent requests, including watches. */
const maxSockets = 1024;

/** HTTP/1.1 for servers without HTTP/2: a socket per concurrent request, kept alive for the next one. */
export class Http1Connection implements HttpConnection {
  readonly #url: URL;
  readonly #agent: PlainAgent;
  #open = true;

  constructor(url: URL, tls: ConnectionOptions) {
    this.#url = url;
    const options = { keepAlive: true, maxSockets, maxFreeSockets };
    this.#agent = url.protocol === 'https:' ? new TlsAgent({ ...tls, ALPNProtocols: ['http/1.1'], ...options }) : new PlainAgent(options);
  }

  get isUsable(): boolean {
    return this.#open;
  }
  get isClosed(): boolean {
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
      rejectUpgrade(request);
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
  const message = goErrorText(cause);
  if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)$/.test(code))
    return new TransportError('ConnectFailed', message, { cause });
  // the server closed an idle socket at the moment of its reuse: it has not read the request
  return new TransportError(code === 'ECONNRESET' && reusedSocket ? 'Refused' : 'Lost', message, { cause });
}
