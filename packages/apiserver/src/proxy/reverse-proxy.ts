import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest, type AgentOptions } from 'node:https';
import type { Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { badRequest, failure, StatusError } from '@oarlock/api/status';
import type { Exchange } from '../http/exchange.ts';
import type { ProxyAddresses } from './proxy-addresses.ts';
import { forwardedValue } from './internal/client-credentials.ts';
import { checkTransferCoding, checkUpgradeBody, connectionHeaders, framed, sendBody } from './internal/forwarded-body.ts';
import { responseHead, proxyUpgrade } from './internal/upgrade.ts';
import { HtmlLinkRewriter } from './internal/html-links.ts';
import type { LinkRewriting } from './internal/location.ts';
import { headerValues } from '@oarlock/spi/authn';
import { errorText } from '@oarlock/primitives/error-text';
import { connectionEnds, goErrorText, joinHostPort, type ConnectionEnds } from '@oarlock/primitives/net/go-error-text';
import { isStaleConnection } from '@oarlock/primitives/net/keep-alive-connection';
import { checkResponseCoding, checkStatusCode, isHtml, returnedHeaders } from './internal/response-headers.ts';

/** The destination of a forwarded request. */
export interface ProxyTarget {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  /** True if the destination may be a loopback address of this machine. */
  readonly allowLoopback: boolean;
  /** The path with the query. */
  readonly path: string;
  /** The certificates of both sides. The connections of one object are reused. If absent, the certificate of the server is not verified. */
  readonly tls?: ProxyTls;
  /** The headers that replace the ones of the client or are added to them; undefined removes a header. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The addresses by which links in responses are rewritten to lead through this server; links are unchanged if absent. */
  readonly rewriting?: LinkRewriting;
}
export type ProxyTls = Pick<AgentOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized' | 'checkServerIdentity'>;

/** A request that this server sends itself. `signal` aborts it at any time. */
export interface ProxyRequest {
  readonly method?: string;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
}

interface OutgoingRequest {
  readonly target: ProxyTarget;
  readonly method: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Readable | Buffer | undefined;
  readonly signal: AbortSignal;
}

export interface ProxyUpgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
  begin(code: number): void;
}

const connectMs = 30_000;
const maxSockets = 256;
const maxAgents = 256;
/** The status codes of responses without a body. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);
const unknownPeer: ProxyTls = { rejectUnauthorized: false };

/** Forwards requests: bodies and responses as streams, upgraded connections as bytes (UpgradeAwareHandler upstream). */
export class ReverseProxy {
  readonly #signal: AbortSignal;
  readonly #addresses: ProxyAddresses;
  readonly #plain = new HttpAgent({ keepAlive: true, maxSockets, maxFreeSockets: 8 });
  #agents = new Map<ProxyTls, HttpsAgent>();

  /** `signal` closes every connection. */
  constructor(signal: AbortSignal, addresses: ProxyAddresses) {
    this.#signal = signal;
    this.#addresses = addresses;
    signal.addEventListener(
      'abort',
      () => {
        this.#plain.destroy();
        for (const agent of this.#agents.values()) agent.destroy();
      },
      { once: true },
    );
  }

  /** Forwards a request and its response. @throws StatusError `ServiceUnavailable` if the destination cannot be reached */
  async forward(target: ProxyTarget, exchange: Exchange): Promise<void> {
    const { signal, method } = exchange;
    checkTransferCoding(exchange);
    const body = exchange.requestStream();
    const response = await this.#send({ target, method, headers: framed(this.#headers(target, exchange), body), body, signal });
    const code = response.statusCode ?? 502;
    const html = target.rewriting !== undefined && isHtml(response.headers) && exchange.method !== 'HEAD';
    for (const [name, value] of Object.entries(returnedHeaders(response.headers, target.rewriting, exchange)))
      if (!((html || code === 204 || code === 205) && name === 'content-length')) exchange.setHeader(name, value);
    if (exchange.method === 'HEAD' || bodiless.has(code)) {
      response.resume();
      exchange.openStream(code).end();
      return;
    }
    const outlet = exchange.openStream(code);
    const links = html && target.rewriting !== undefined ? new HtmlLinkRewriter(target.rewriting) : undefined;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        const bytes = links === undefined ? chunk : links.write(chunk);
        if (bytes.length > 0 && !outlet.write([bytes])) await outlet.waitForDrain();
        if (outlet.closed) return;
      }
      const rest = links?.end();
      if (rest !== undefined && rest.length > 0) outlet.write([rest]);
      outlet.end();
    } catch {
      exchange.abort(); // the response is incomplete: the client must not take it for complete
    } finally {
      response.destroy();
    }
  }

  /**
   * Upgrades the client's connection if the destination accepts the upgrade; otherwise forwards its response.
   * @throws StatusError if the destination cannot be reached
   */
  async upgrade(target: ProxyTarget, exchange: Exchange, { socket, head, begin }: ProxyUpgrade): Promise<void> {
    const { signal, method } = exchange;
    checkUpgradeBody(exchange.headers);
    const headers = {
      ...framed(this.#headers(target, exchange), undefined),
      connection: 'Upgrade',
      upgrade: exchange.headers.upgrade ?? '',
    };
    const request = this.#request({ target, method, headers }, true);
    const ends = connectionEnds(request);
    limitDialTime(request, target);
    try {
      await proxyUpgrade(request, { socket, head, signal, begin }, forwardRejection);
    } catch (error) {
      throw unreachableError(error, ends());
    }
  }

  /**
   * Sends a request of this server and returns the response, whose body the caller must read or destroy.
   * @throws StatusError `ServiceUnavailable` if the destination cannot be reached
   */
  async open(target: ProxyTarget, { method = 'GET', body, signal }: ProxyRequest): Promise<IncomingMessage> {
    const headers = definedOf({ ...target.headers, ...(body && { 'content-length': String(body.length) }) });
    return this.#send({ target, method, headers, body, signal });
  }

  /** Sends a request. A request without a body is sent once more if the destination closed a reused connection. */
  #send(outgoing: OutgoingRequest, fresh = false): Promise<IncomingMessage> {
    const { body, signal } = outgoing;
    return new Promise((resolve, reject) => {
      const request = this.#request(outgoing, fresh);
      const abandon = () => {
        request.destroy();
      };
      signal.addEventListener('abort', abandon, { once: true });
      const ends = connectionEnds(request);
      limitDialTime(request, outgoing.target);
      request.once('error', (error: NodeJS.ErrnoException) => {
        signal.removeEventListener('abort', abandon);
        if (body === undefined && !signal.aborted && isStaleConnection(request, error)) resolve(this.#send(outgoing, true));
        else reject(unreachableError(error, ends()));
      });
      // node destroys the connection without an error if the destination switches protocols unrequested
      request.once('close', () => {
        reject(unreachableError(new Error('the connection was closed before the response')));
      });
      request.once('response', (response) => {
        response.once('close', () => {
          signal.removeEventListener('abort', abandon);
        });
        try {
          checkStatusCode(response);
          checkResponseCoding(response);
          resolve(response);
        } catch (error) {
          response.destroy();
          reject(unreachableError(error));
        }
      });
      if (body === undefined || Buffer.isBuffer(body)) request.end(body);
      else sendBody(body, request);
    });
  }

  /** Creates the outgoing request. `fresh` requires a new connection. */
  #request({ target, method, headers }: Pick<OutgoingRequest, 'target' | 'method' | 'headers'>, fresh: boolean): ClientRequest {
    const { scheme, host, port, path, tls } = target;
    const lookup = this.#addresses.lookup(target);
    const address = { lookup, host, port, method, path, headers, setHost: headers['host'] === undefined, insecureHTTPParser: false };
    try {
      if (scheme === 'http') return httpRequest({ ...address, agent: fresh ? false : this.#plain });
      const agent = this.#agentFor(tls ?? unknownPeer);
      return httpsRequest(fresh ? { ...agent.options, ...address, agent: false } : { ...address, agent });
    } catch (error) {
      // node rejects characters that a request line must not contain
      throw badRequest(errorText(error));
    }
  }

  #headers(target: ProxyTarget, exchange: Exchange): OutgoingHttpHeaders {
    const { headers, connection } = exchange;
    const isConnectionHeader = connectionHeaders(headers.connection);
    const forwarded: Record<string, string | readonly string[]> = {};
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined || name.startsWith(':') || isConnectionHeader(name)) continue;
      const sent = typeof value === 'string' ? forwardedValue(name, value) : value;
      if (sent === undefined) continue;
      // lines of a repeated header stay separate, because a value may contain commas
      forwarded[name] =
        sent === value && name !== 'cookie' && typeof sent === 'string' && sent.includes(',') ? linesOf(exchange, name, sent) : sent;
    }
    const host = headers.host ?? (headers[':authority'] as string | undefined);
    if (host !== undefined) forwarded['host'] = host;
    const length = headers['content-length'];
    if (length !== undefined) forwarded['content-length'] = length;
    if (connection.remoteAddress !== undefined)
      forwarded['x-forwarded-for'] = [headers['x-forwarded-for'], connection.remoteAddress].filter((part) => part !== undefined).join(', ');
    const { rewriting } = target;
    if (rewriting !== undefined) {
      forwarded['x-forwarded-uri'] = rewriting.prefix + target.path.split('?', 1)[0];
      forwarded['x-forwarded-proto'] = 'https';
      if (host !== undefined) forwarded['x-forwarded-host'] = host;
      // links in a compressed response cannot be rewritten
      if (exchange.method === 'GET' && headers.accept?.includes('text/html') === true) forwarded['accept-encoding'] = 'identity';
    }
    return definedOf({ ...forwarded, ...target.headers });
  }

  #agentFor(tls: ProxyTls): HttpsAgent {
    let agent = this.#agents.get(tls);
    if (agent === undefined) {
      if (this.#agents.size >= maxAgents) {
        const [[oldest, unused] = []] = this.#agents;
        if (oldest !== undefined) this.#agents.delete(oldest);
        unused?.destroy();
      }
      agent = new HttpsAgent({
        ...tls,
        minVersion: 'TLSv1.2',
        ALPNProtocols: ['http/1.1'],
        keepAlive: true,
        maxSockets,
        maxFreeSockets: 8,
      });
      if (!this.#signal.aborted) this.#agents.set(tls, agent);
    }
    return agent;
  }
}

/** Returns the lines of a header, or its value if it has only one line. */
function linesOf({ rawHeaders }: Exchange, name: string, value: string): string | readonly string[] {
  const lines = headerValues(rawHeaders, name);
  return lines.length > 1 ? lines : value;
}

function definedOf(headers: NonNullable<ProxyTarget['headers']>): OutgoingHttpHeaders {
  const result: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) result[name] = typeof value === 'string' ? value : [...value];
  return result;
}

function unreachableError(error: unknown, ends?: ConnectionEnds): StatusError {
  if (error instanceof StatusError) return error;
  const { status } = failure('ServiceUnavailable', `error trying to reach service: ${goErrorText(error, ends)}`, {});
  return new StatusError(status, { cause: error });
}

/** Fails a request whose connection is not established within `connectMs`. The time until the response is not limited. */
function limitDialTime(request: ClientRequest, { host, port }: ProxyTarget): void {
  request.once('socket', (socket) => {
    if (!socket.connecting) return;
    socket.setTimeout(connectMs, () => {
      request.destroy(new Error(`dial tcp ${joinHostPort(host, port)}: i/o timeout`));
    });
    socket.once('connect', () => {
      socket.setTimeout(0);
    });
  });
}

async function forwardRejection(response: IncomingMessage, socket: Duplex): Promise<void> {
  socket.write(responseHead(response.statusCode ?? 502, response, 'Connection: close\r\n'), 'latin1');
  await pipeline(response, socket);
}
