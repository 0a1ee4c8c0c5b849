import { request } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { ApiError, type Answer, type CallOptions } from './api.ts';

/** A client with the token of a service account, as a program in a pod has it. */
export class TokenClient {
  readonly #options: { readonly server: string; readonly ca?: string; readonly token: string };

  constructor(options: { readonly server: string; readonly ca?: string; readonly token: string }) {
    this.#options = options;
  }

  /** Returns a client of another server with the same token. Without a CA any certificate is accepted, as metrics-server's `--kubelet-insecure-tls` does. */
  at(server: string, ca?: string): TokenClient {
    return new TokenClient({ server, token: this.#options.token, ...(ca !== undefined && { ca }) });
  }

  #open(method: string, path: string, { body, headers, timeoutMs = 60_000 }: CallOptions): Promise<IncomingMessage> {
    const { server, ca, token } = this.#options;
    return new Promise((resolve, reject) => {
      const call = request(
        new URL(path, server),
        {
          method,
          ...(ca === undefined ? { rejectUnauthorized: false } : { ca, checkServerIdentity: () => undefined }),
          agent: false,
          timeout: timeoutMs,
          headers: {
            accept: 'application/json',
            authorization: `Bearer ${token}`,
            ...(body !== undefined && { 'content-type': 'application/json' }),
            ...headers,
          },
        },
        resolve,
      );
      call.once('error', reject).once('timeout', () => call.destroy(new Error(`${method} ${path}: no answer within ${timeoutMs} ms`)));
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const response = await this.#open(method, path, options);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString('utf8') };
  }

  /** @throws ApiError if the status is not 2xx */
  async json<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const { status, body } = await this.call(method, path, options);
    if (status < 200 || status > 299) throw new ApiError(method, path, status, body);
    return JSON.parse(body) as T;
  }
}
