import { jsonOf, openRequest, readAnswer, type Answer, type CallOptions } from './api.ts';

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

  async call(method: string, path: string, { headers, ...options }: CallOptions = {}): Promise<Answer> {
    const { server, ca, token } = this.#options;
    const tls = ca === undefined ? { rejectUnauthorized: false } : { ca, checkServerIdentity: () => undefined };
    const withToken = { ...options, headers: { authorization: `Bearer ${token}`, ...headers } };
    return readAnswer(await openRequest(new URL(path, server), withToken, { method, agent: false, ...tls }));
  }

  /** @throws ApiError if the status is not 2xx */
  async json<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    return jsonOf<T>(method, path, await this.call(method, path, options));
  }
}
