import { request as httpsRequest, Agent, type RequestOptions } from 'node:https';
import { createSecureContext } from 'node:tls';
import {
  request as httpRequest,
  STATUS_CODES,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { badRequest, failure, StatusError } from '@oarlock/api/status';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { ProxyAddresses } from './proxy-addresses.ts';
import type { ProxyClientCertificate } from './proxy-client-certificate.ts';
import type { ProxyTls } from './reverse-proxy.ts';
import type { Exchange } from '../http/exchange.ts';
import { internalError } from '../http/errors.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import {
  clientTimeout,
  connectionEnds,
  goErrorText,
  joinHostPort,
  requestErrorText,
  type ConnectionEnds,
} from '@oarlock/primitives/net/go-error-text';
import { isStaleConnection, rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { forwardedValue } from './internal/client-credentials.ts';
import { checkUpgradeBody, connectionHeaders } from './internal/forwarded-body.ts';
import { proxyUpgrade, type UpgradeClient } from './internal/upgrade.ts';

type KubeletTarget = Extract<PipelineResponse, { kind: 'kubelet' }>;

const connectMs = 30_000;
const maxErrorBytes = 50_000;
const maxConnectionsPerNode = 64;
/** The headers that are not forwarded to the kubelet: cookies, and the body length, because an upgrade has no body. */
const strippedHeaders: ReadonlySet<string> = new Set(['content-length', 'cookie', 'host']);

export interface KubeletUpgrade extends UpgradeClient {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

export interface KubeletProxyOptions {
  readonly addresses: ProxyAddresses;
  /** The kubelets in this process, which are called without sockets and TLS. */
  readonly local?: LocalNodes | undefined;
}

/**
 * Forwards requests for logs, exec, attach and port-forward to kubelets. The API server authenticates with its kubelet client certificate, and
 * verifies kubelets that have a certificate of the cluster CA. Kubelets in this process accept in-memory connections.
 */
export class KubeletProxy {
  readonly #certificate: ProxyClientCertificate;
  readonly #addresses: ProxyAddresses;
  readonly #local: LocalNodes | undefined;
  /** The HTTP agents of the current certificate: for kubelets that are verified, and for those that are not. */
  readonly #agents = new Map<ProxyTls, Agent>();

  /** @param certificate the kubelet client certificate, which determines the kubelets that must present a certificate of the cluster CA */
  constructor(certificate: ProxyClientCertificate, signal: AbortSignal, { addresses, local }: KubeletProxyOptions) {
    this.#certificate = certificate;
    this.#addresses = addresses;
    this.#local = local;
    signal.addEventListener(
      'abort',
      () => {
        for (const agent of this.#agents.values()) agent.destroy();
      },
      { once: true },
    );
  }

  /**
   * Streams the response of the kubelet, such as logs, to the client.
   * @throws StatusError if the kubelet cannot be reached or responds with an error
   */
  async stream(target: KubeletTarget, exchange: Exchange): Promise<void> {
    const { signal } = exchange;
    const response = await this.#get(target, signal);
    const code = response.statusCode ?? 502;
    if (code < 200 || code > 206) throw await kubeletError(response, code);
    exchange.setHeader('Content-Type', response.headers['content-type'] ?? 'text/plain');
    const outlet = exchange.openStream(code);
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        if (!outlet.write([chunk])) await outlet.waitForDrain();
        if (outlet.closed) return;
      }
      outlet.end();
    } catch {
      exchange.abort(); // the kubelet's response is incomplete: the client must not take it for complete
    } finally {
      response.destroy();
    }
  }

  /**
   * Upgrades the client's connection if the kubelet accepts the upgrade; otherwise forwards the kubelet's response.
   * @throws StatusError if the kubelet cannot be reached
   */
  async upgrade(target: KubeletTarget, { method, headers, socket, head, signal, begin }: KubeletUpgrade): Promise<void> {
    checkUpgradeBody(headers);
    const options: RequestOptions = {
      ...this.#address(target),
      method,
      path: target.path,
      headers: { ...forwardedHeaders(headers), connection: 'Upgrade', upgrade: headers.upgrade ?? '' },
    };
    let ends: (() => ConnectionEnds | undefined) | undefined;
    try {
      const request =
        this.#requestInProcess(target, options) ?? httpsRequest({ ...(await this.#agent(target)).options, ...options, agent: false });
      responseWithinTimeout(request);
      ends = connectionEnds(request);
      await proxyUpgrade(request, { socket, head, signal, begin }, forwardRejection);
    } catch (error) {
      throw unreachableError(error, (cause) => `error dialing backend: ${goErrorText(cause, ends?.())}`);
    }
  }

  async #get(target: KubeletTarget, signal: AbortSignal, fresh = false): Promise<IncomingMessage> {
    const options = { ...this.#address(target), method: 'GET', path: target.path, signal };
    let request = this.#requestInProcess(target, options);
    if (request === undefined) {
      const agent = await this.#agent(target);
      request = httpsRequest(fresh ? { ...agent.options, ...options, agent: false } : { ...options, agent });
    }
    return this.#response(request, target, signal);
  }

  #response(request: ClientRequest, target: KubeletTarget, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      responseWithinTimeout(request);
      rejectUpgrade(request);
      const ends = connectionEnds(request);
      request.once('error', (error: NodeJS.ErrnoException) => {
        if (!signal.aborted && isStaleConnection(request, error)) {
          resolve(this.#get(target, signal, true));
          return;
        }
        reject(unreachableError(error, (cause) => requestErrorText('GET', urlOf(target), goErrorText(cause, ends()))));
      });
      request.once('response', resolve);
      request.end();
    });
  }

  /** Returns a request to a kubelet in this process; undefined if the address of the Node is not the address on which this kubelet listens. */
  #requestInProcess({ nodeName, host, port }: KubeletTarget, options: RequestOptions): ClientRequest | undefined {
    const kubelet = this.#local?.find(nodeName);
    if (kubelet === undefined || kubelet.host !== host || kubelet.port !== port) return undefined;
    return httpRequest({ ...options, createConnection: () => kubelet.connect() });
  }

  #address({ host, port }: KubeletTarget): RequestOptions {
    const lookup = this.#addresses.lookup({ host, port, allowLoopback: true });
    return { host, port, lookup, ...(host.includes(':') && { family: 6 }) };
  }

  /** Returns the agent of the current client certificate. */
  async #agent({ own }: KubeletTarget): Promise<Agent> {
    const tls = await this.#certificate.tls(own);
    let agent = this.#agents.get(tls);
    if (agent === undefined) {
      for (const [former, each] of this.#agents) {
        if (former.cert === tls.cert) continue;
        this.#agents.delete(former);
        retire(each);
      }
      agent = agentOf(tls);
      this.#agents.set(tls, agent);
    }
    return agent;
  }
}

/** Closes the idle connections of an agent, and the others at the end of their requests. */
function retire(agent: Agent): void {
  agent.maxFreeSockets = 0;
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

/** Fails a request that has received no response within `connectMs`. */
function responseWithinTimeout(request: ClientRequest): void {
  request.once('socket', () => {
    const timer = setTimeout(() => {
      request.destroy(new Error(clientTimeout));
    }, connectMs);
    for (const end of ['response', 'upgrade', 'close']) request.once(end, () => clearTimeout(timer));
  });
}

function agentOf({ rejectUnauthorized = true, ...tls }: ProxyTls): Agent {
  return new Agent({
    rejectUnauthorized,
    // created once: parsing keys and certificates takes longer than a handshake
    secureContext: createSecureContext({ ...tls, minVersion: 'TLSv1.2' }),
    ALPNProtocols: ['http/1.1'],
    keepAlive: true,
    maxSockets: maxConnectionsPerNode,
    maxFreeSockets: 2,
  });
}

function forwardedHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const isConnectionHeader = connectionHeaders(headers.connection);
  const forwarded: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(headers)) {
    if (strippedHeaders.has(name) || isConnectionHeader(name) || name.startsWith(':')) continue;
    const sent = typeof value === 'string' ? forwardedValue(name, value) : value;
    if (sent !== undefined) forwarded[name] = sent;
  }
  return forwarded;
}

const urlOf = ({ host, port, path }: KubeletTarget): string => `https://${joinHostPort(host, port)}${path}`;

/** Returns the error of a kubelet that cannot be reached; upstream's status has no reason, and the text without a prefix. */
function unreachableError(error: unknown, textOf: (cause: unknown) => string): StatusError {
  if (error instanceof StatusError) return error;
  const { reason: _reason, ...status } = failure('InternalError', textOf(error), {}).status;
  return new StatusError(status, { cause: error });
}

/** Returns the kubelet's error response as a StatusError, with the status that Kubernetes uses for it. */
async function kubeletError(response: IncomingMessage, code: number): Promise<StatusError> {
  const text = await errorText(response);
  switch (code) {
    case 400:
      return badRequest(text);
    case 500:
      return internalError(text);
    case 404:
      return failure('NotFound', `the server could not find the requested resource: ${text}`, {});
    default:
      return failure('InternalError', text, {}, code);
  }
}

async function errorText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, maxErrorBytes - size));
    size += chunk.length;
    if (size >= maxErrorBytes) break;
  }
  return Buffer.concat(chunks).toString('utf8').trim();
}

async function forwardRejection(response: IncomingMessage, socket: Duplex): Promise<void> {
  const text = await errorText(response);
  const type = response.headers['content-type'] ?? 'text/plain';
  const code = response.statusCode ?? 502;
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ''}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
}
