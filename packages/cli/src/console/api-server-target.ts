import type { IncomingHttpHeaders } from 'node:http';
import type { ProxyTarget, ProxyTls } from '@oarlock/apiserver/proxy/reverse-proxy';
import { BearerToken } from '@oarlock/client/auth/bearer-token';
import type { Kubeconfig } from '@oarlock/client/kubeconfig';
import { systemClock } from '@oarlock/primitives/clock';
import { checkSubjectAlternativeNames } from '@oarlock/primitives/net/keep-alive-connection';

/** Request headers of the browser that describe the page or the cookie jar of the local console. The API server of the kubeconfig does not receive them. */
const browserHeaders = ['cookie', 'origin', 'referer', 'sec-fetch-dest', 'sec-fetch-mode', 'sec-fetch-site', 'x-forwarded-for'];

/** The API server of a kubeconfig as the destination of forwarded requests, with the credentials of the kubeconfig. */
export class ApiServerTarget {
  readonly #options: Kubeconfig['options'];
  readonly #url: URL;
  readonly #tokens: BearerToken;
  /** One object for one client certificate, because the proxy keeps the connections of an object. */
  #tls: ProxyTls;

  constructor({ options }: Pick<Kubeconfig, 'options'>) {
    this.#options = options;
    this.#url = new URL(options.server);
    this.#tokens = new BearerToken({ token: options.token, tokenFile: options.tokenFile, clock: systemClock });
    this.#tls = {
      checkServerIdentity: checkSubjectAlternativeNames,
      ...(options.ca !== undefined && { ca: options.ca }),
      ...(options.cert !== undefined && { cert: options.cert }),
      ...(options.key !== undefined && { key: options.key }),
      ...(options.tlsServerName !== undefined && { servername: options.tlsServerName }),
      rejectUnauthorized: options.insecureSkipTlsVerify !== true,
    };
  }

  /**
   * Returns the destination of a request.
   * @param path the path with the query
   * @throws Error if the credentials cannot be read
   */
  async targetOf(path: string, headers: IncomingHttpHeaders): Promise<ProxyTarget> {
    const { protocol, hostname, port, host, pathname } = this.#url;
    const isSecure = protocol === 'https:';
    const token = await this.#token();
    return {
      scheme: isSecure ? 'https' : 'http',
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (isSecure ? 443 : 80) : Number(port),
      path: `${pathname.replace(/\/+$/, '')}${path}`,
      allowLoopback: true,
      tls: this.#tls,
      headers: {
        ...Object.fromEntries(browserHeaders.map((name) => [name, undefined])),
        ...impersonationOf(headers),
        host,
        authorization: token === undefined ? undefined : `Bearer ${token}`,
      },
    };
  }

  /** Handles a 401 response: the credentials are read again for the next request. */
  handleUnauthorized(): void {
    if (this.#options.credentials === undefined) this.#tokens.handleUnauthorized();
    else this.#options.credentials.handleUnauthorized();
  }

  async #token(): Promise<string | undefined> {
    const { credentials } = this.#options;
    if (credentials === undefined) return this.#tokens.get();
    const { token, cert, key } = await credentials.get();
    if (cert !== undefined && key !== undefined && cert !== this.#tls.cert) this.#tls = { ...this.#tls, cert, key };
    return token;
  }
}

/** Returns the headers of impersonation. Browsers send several lines of a header as one, and Kubernetes expects one line for each group. */
function impersonationOf(headers: IncomingHttpHeaders): Readonly<Record<string, string | readonly string[]>> {
  const found: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(headers))
    if (typeof value === 'string' && name.startsWith('impersonate-'))
      found[name] = name === 'impersonate-group' ? value.split(/, */) : value;
  return found;
}
