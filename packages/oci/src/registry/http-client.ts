import * as http from 'node:http';
import * as https from 'node:https';
import { HttpsProxyAgent } from 'https-proxy-agent';
import type { Clock } from '@oarlock/primitives/clock';
import { connectionEnds, goErrorText, joinHostPort, requestErrorText, type ConnectionEnds } from '@oarlock/primitives/net/go-error-text';
import { OciError } from '../oci-error.ts';
import { requireEnd, requireProgress } from '@oarlock/primitives/net/body-progress';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import type { TlsSettings } from './host-config.ts';
import { proxyFor, type ProxySettings } from './proxy.ts';

export interface HttpRequest {
  readonly url: URL;
  readonly method: 'GET' | 'HEAD' | 'POST';
  /** The method that errors name, if it is another one. */
  readonly reportedMethod?: 'GET' | 'HEAD' | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly tls: TlsSettings;
  readonly dialTimeoutMs: number;
  /** The time until the end of the body; infinite for a body that only has to bring bytes. */
  readonly bodyTimeoutMs: number;
  readonly signal: AbortSignal;
}
export interface HttpResponse {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** The caller reads the body to its end or destroys it. It is destroyed if it brings too few bytes in a minute. */
  readonly body: http.IncomingMessage;
}

const headersTimeoutMs = 60_000;
const maxSockets = 16;

/** @param ends the ends of the connection that failed */
function unavailable({ url, method, reportedMethod }: HttpRequest, cause: unknown, ends: ConnectionEnds | undefined): OciError {
  const text = requestErrorText(reportedMethod ?? method, `${url.origin}${url.pathname}`, goErrorText(cause, ends));
  return new OciError('Unavailable', `failed to do request: ${text}`, { cause });
}

/** Sends requests, with the TLS settings of their host and through the proxy. Connections are reused. Redirects are not followed. */
export class HttpClient {
  readonly #clock: Clock;
  readonly #proxy: ProxySettings;
  readonly #agents = new Map<string, http.Agent>();

  constructor(clock: Clock, proxy: ProxySettings) {
    this.#clock = clock;
    this.#proxy = proxy;
  }

  /** @throws OciError `Unavailable`; the signal's reason */
  send(sent: HttpRequest): Promise<HttpResponse> {
    const { url, method, headers, body, tls, dialTimeoutMs, bodyTimeoutMs, signal } = sent;
    signal.throwIfAborted();
    const proxy = proxyFor(url, this.#proxy);
    // plain HTTP requests the whole URL from the proxy; https connects through the proxy
    const viaProxy = proxy !== undefined && url.protocol === 'http:';
    const target = viaProxy ? proxy : url;
    const options: https.RequestOptions = {
      method,
      agent: this.#agent(url, tls, proxy),
      host: target.hostname.replace(/^\[|\]$/g, ''),
      port: target.port === '' ? (target.protocol === 'https:' ? 443 : 80) : target.port,
      path: viaProxy ? url.href : `${url.pathname}${url.search}`,
      ...(url.protocol === 'https:' && secureOptions(tls)),
      headers: { 'user-agent': 'oarlock', host: url.host, ...(viaProxy && proxyAuthorization(proxy)), ...headers },
    };
    return new Promise((resolve, reject) => {
      const request = (target.protocol === 'https:' ? https : http).request(options);
      const ends = connectionEnds(request);
      let timer = this.#clock.after(dialTimeoutMs, () => {
        const dial = `dial tcp ${joinHostPort(target.hostname.replace(/^\[|\]$/g, ''), options.port ?? '')}: i/o timeout`;
        request.destroy(new Error(ends() === undefined ? dial : 'net/http: TLS handshake timeout'));
      });
      const restart = (ms: number, message: string) => {
        timer.cancel();
        timer = this.#clock.after(ms, () => request.destroy(new Error(message)));
      };
      const abort = () => request.destroy(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
      signal.addEventListener('abort', abort, { once: true });
      request.once('close', () => {
        timer.cancel();
        signal.removeEventListener('abort', abort);
      });
      const waitForHeaders = () => restart(headersTimeoutMs, 'net/http: timeout awaiting response headers');
      request.once('socket', (socket) => {
        if (socket.connecting) socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', waitForHeaders);
        else waitForHeaders();
      });
      rejectUpgrade(request);
      request.once('error', (error) => reject(signal.aborted ? (signal.reason as Error) : unavailable(sent, error, ends())));
      request.once('response', (response) => {
        timer.cancel();
        requireProgress(response, this.#clock);
        if (Number.isFinite(bodyTimeoutMs)) requireEnd(response, { clock: this.#clock, withinMs: bodyTimeoutMs });
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
      });
      request.end(body);
    });
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  #agent(url: URL, tls: TlsSettings, proxy: URL | undefined): http.Agent {
    const key = JSON.stringify([url.protocol, url.protocol === 'https:' ? tls : '', proxy?.href ?? '']);
    const known = this.#agents.get(key);
    if (known) return known;
    const shared = { keepAlive: true, maxSockets, maxFreeSockets: 4 };
    const agent =
      url.protocol === 'http:'
        ? new http.Agent(shared)
        : proxy === undefined
          ? new https.Agent(shared)
          : new HttpsProxyAgent(proxy, shared);
    this.#agents.set(key, agent);
    return agent;
  }
}

/** The settings of the TLS connection to the registry. An https proxy is verified with the CAs of the system. */
const secureOptions = ({ ca, certificates, skipVerify }: TlsSettings): https.RequestOptions => ({
  ...(ca.length > 0 && { ca: [...ca] }),
  ...(certificates.length > 0 && { cert: certificates.map(({ cert }) => cert), key: certificates.map(({ key }) => key) }),
  rejectUnauthorized: !skipVerify,
});

const proxyAuthorization = ({ username, password }: URL): Record<string, string> =>
  username === ''
    ? {}
    : {
        'proxy-authorization': `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`,
      };

/** A body that is not read, up to this size, is taken from the connection, which serves the next request. */
const maxUnreadBytes = 64 * 1024;

/** Ends a response whose body is not read. A long one, or one of unknown length, ends the connection. */
export function discard({ body, headers }: Pick<HttpResponse, 'body' | 'headers'>): void {
  body.on('error', () => {}); // nothing reads it
  if (Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) <= maxUnreadBytes) body.resume();
  else body.destroy();
}

/** Reads a body into memory. @throws OciError `TooLarge` if it exceeds the limit, `Unavailable` if it is truncated */
export async function readBody({ body, headers }: Pick<HttpResponse, 'body' | 'headers'>, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw new OciError('TooLarge', `the response has more than ${maxBytes} bytes`);
    for await (const chunk of body) {
      size += (chunk as Buffer).length;
      if (size > maxBytes) throw new OciError('TooLarge', `the response has more than ${maxBytes} bytes`);
      parts.push(chunk as Buffer);
    }
  } catch (error) {
    body.destroy();
    if (error instanceof OciError) throw error;
    throw new OciError('Unavailable', `the response of the registry ended early: ${goErrorText(error)}`, { cause: error });
  }
  return Buffer.concat(parts);
}
