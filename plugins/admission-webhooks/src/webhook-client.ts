import { Agent, request as send, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';
import type { ServiceReference, WebhookClientConfig } from '@oarlock/api/types/admissionregistration-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { connectionEnds, goErrorText, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import type { ExcludedAddresses } from '@oarlock/primitives/net/excluded-addresses';
import { checkSubjectAlternativeNames, isStaleConnection, rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { resolveService, type ServiceEndpoint } from './service-resolver.ts';
import { WebhookError } from './webhook-error.ts';

const maxAnswer = 3 * 1024 * 1024;
const maxSockets = 64;
const maxIdle = 8;

interface CallTarget {
  readonly url: string;
  readonly options: RequestOptions;
}

export interface WebhookClientOptions {
  readonly clock: Clock;
  readonly random: () => number;
  /** Addresses at which no webhook of a Service is called. */
  readonly excluded: ExcludedAddresses;
}

/** Sends AdmissionReviews to webhooks over pooled connections. */
export class WebhookClient {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #excluded: ExcludedAddresses;
  readonly #agent = new Agent({ keepAlive: true, maxSockets, maxFreeSockets: maxIdle, checkServerIdentity: checkSubjectAlternativeNames });
  readonly #bundles = new Map<string, string>();

  constructor(client: Client, { clock, random, excluded }: WebhookClientOptions) {
    this.#client = client;
    this.#clock = clock;
    this.#random = random;
    this.#excluded = excluded;
  }

  /**
   * Sends a request and returns the response body.
   * @throws WebhookError `call` if the call fails, times out or is answered with another status than 2xx
   */
  async post(config: WebhookClientConfig, body: Buffer, timeoutMs: number): Promise<Buffer> {
    const { url, options } = await this.#where(config, timeoutMs);
    const late = new AbortController();
    const timer = this.#clock.after(timeoutMs, () => late.abort());
    try {
      return await this.#send(options, body, late.signal);
    } catch (error) {
      const why = late.signal.aborted ? 'context deadline exceeded' : goErrorText(error);
      throw new WebhookError(
        'call',
        error instanceof UnusableResponseError ? error.message : `failed to call webhook: ${requestErrorText('POST', url, why)}`,
        {
          cause: error,
        },
      );
    } finally {
      timer.cancel();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #where({ url, service, caBundle }: WebhookClientConfig, timeoutMs: number): Promise<CallTarget> {
    const timeout = `timeout=${timeoutMs / 1000}s`;
    const common: RequestOptions = { agent: this.#agent, ...(caBundle !== undefined && { ca: this.#bundle(caBundle) }) };
    if (service !== undefined) {
      const { namespace, name, path = '/', port = 443 } = service;
      const { host, port: at } = await this.#endpointOf(service).catch((error: unknown) => {
        if (!(error instanceof WebhookError)) throw error;
        const where = `https://${name}.${namespace}.svc:${port}${path}?${timeout}`;
        throw new WebhookError('call', `failed to call webhook: ${requestErrorText('POST', where, error.message)}`, { cause: error });
      });
      const servername = `${name}.${namespace}.svc`;
      const target = `${path.startsWith('/') ? path : `/${path}`}?${timeout}`;
      const headers = { host: `${servername}:${port}` };
      return {
        url: `https://${servername}:${port}${target}`,
        options: { ...common, host, port: at, lookup: this.#excluded.lookup, servername, path: target, headers },
      };
    }
    const parsed = new URL(url ?? '');
    parsed.search = parsed.search === '' ? timeout : `${parsed.search}&${timeout}`;
    const host = parsed.hostname.replace(/^\[|\]$/g, '');
    return {
      url: parsed.href,
      options: { ...common, host, port: parsed.port === '' ? 443 : Number(parsed.port), path: `${parsed.pathname}${parsed.search}` },
    };
  }

  /** Returns an endpoint of a Service. Others than administrators may choose its address. @throws WebhookError `call` */
  async #endpointOf(service: ServiceReference): Promise<ServiceEndpoint> {
    const endpoint = await resolveService(this.#client, service, this.#random);
    if (this.#excluded.has(endpoint.host)) throw new WebhookError('call', 'address not allowed');
    return endpoint;
  }

  /** Returns the CA bundle as text. Each CA bundle is decoded once, because the connection pool compares CA texts by identity. */
  #bundle(caBundle: string): string {
    let pem = this.#bundles.get(caBundle);
    if (pem === undefined) {
      pem = Buffer.from(caBundle, 'base64').toString();
      if (this.#bundles.size >= 256) this.#bundles.clear();
      this.#bundles.set(caBundle, pem);
    }
    return pem;
  }

  async #send(options: RequestOptions, body: Buffer, signal: AbortSignal): Promise<Buffer> {
    try {
      return await attempt(options, body, signal);
    } catch (error) {
      if (!(error instanceof StaleConnectionError) || signal.aborted) throw error;
      return attempt({ ...options, agent: false, checkServerIdentity: checkSubjectAlternativeNames }, body, signal);
    }
  }
}

/** The error of a request on an idle pooled connection that the server closed before it received the request. */
class StaleConnectionError extends Error {}

function attempt(options: RequestOptions, body: Buffer, signal: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const headers = {
      ...options.headers,
      'content-type': 'application/json',
      accept: 'application/json, */*',
      'content-length': body.length,
      'user-agent': 'kube-apiserver-admission',
    };
    const request = send({ ...options, method: 'POST', headers, signal }, (response) => resolve(answerOf(response)));
    const ends = connectionEnds(request);
    rejectUpgrade(request);
    request.on('error', (cause: NodeJS.ErrnoException) => {
      const FailedError = isStaleConnection(request, cause) ? StaleConnectionError : Error;
      reject(new FailedError(goErrorText(cause, ends()), { cause }));
    });
    request.end(body);
  });
}

/** The error of a response that is too large or has another status than 2xx. */
class UnusableResponseError extends Error {}

async function answerOf(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxAnswer) {
      response.destroy();
      throw new UnusableResponseError('the response of the webhook is too large');
    }
    chunks.push(chunk);
  }
  const { statusCode = 0 } = response;
  if (statusCode >= 200 && statusCode < 300) return Buffer.concat(chunks);
  if (statusCode === 404) throw new UnusableResponseError('failed to call webhook: the server could not find the requested resource');
  const text = Buffer.concat(chunks).toString().slice(0, 2048).trim();
  throw new UnusableResponseError(
    statusCode >= 500
      ? `failed to call webhook: an error on the server (${JSON.stringify(text || 'unknown')}) has prevented the request from succeeding`
      : `failed to call webhook: the server rejected our request for an unknown reason (${statusCode})`,
  );
}
