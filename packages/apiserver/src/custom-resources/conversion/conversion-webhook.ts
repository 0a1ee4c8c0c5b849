import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { isIP, type LookupFunction } from 'node:net';
import { Agent, request as httpsRequest } from 'node:https';
import { randomUUID } from 'node:crypto';
import { isObject } from '@oarlock/api/json/json';
import { countValues, maxBodyValues } from '../../endpoints/request/body-values.ts';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceConversion, WebhookClientConfig } from '@oarlock/api/types/apiextensions-v1';
import { connectionEnds, goErrorText, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { checkSubjectAlternativeNames, isStaleConnection, rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';

/** The objects to convert and the desired API version. */
export interface ConversionRequest {
  readonly objects: readonly KubeObject[];
  readonly desiredAPIVersion: string;
  readonly signal?: AbortSignal | undefined;
}

export interface ServiceAddress {
  readonly host: string;
  readonly port: number;
  /** Resolves `host` if it is a name. */
  readonly lookup?: LookupFunction;
}
/** Returns the address of a Service. @throws Error if the Service has no endpoint */
export type ServiceResolver = (namespace: string, name: string, port: number) => ServiceAddress;

const timeoutMs = 30_000;
const maxAnswerBytes = 64 * 1024 * 1024;
/** An answer may have this many values for each value of the request, and as many more as a request body. */
const maxAnswerValuesFactor = 4;
/** The maximum length of the text of a webhook that an error message quotes. */
const maxMessageLength = 2048;
const maxSockets = 64;
const maxAgents = 256;

/** Returns a value of a response as text of bounded length. */
export const quoted = (value: unknown): string =>
  (typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined')).slice(0, maxMessageLength);

/** Returns the host name without the brackets that surround an IPv6 address in a URL. */
const withoutBrackets = (hostname: string) => hostname.replace(/^\[(.*)\]$/, '$1');

interface WebhookCall {
  readonly client: WebhookClientConfig;
  readonly body: Buffer;
  readonly signal: AbortSignal | undefined;
  readonly timeout: AbortSignal;
}

/** A client of conversion webhooks (ConversionReview). Reuses connections by server name and CA bundle. */
export class ConversionWebhooks {
  readonly #resolve: ServiceResolver;
  readonly #agents = new Map<string, Agent>();

  constructor(resolve: ServiceResolver) {
    this.#resolve = resolve;
  }

  /**
   * Calls the webhook and returns the converted objects in the order of the request. Validates only the form of the ConversionReview.
   * @throws Error if the call fails or the response is malformed
   */
  async convert(
    { clientConfig = {}, conversionReviewVersions }: NonNullable<CustomResourceConversion['webhook']>,
    { objects, desiredAPIVersion, signal }: ConversionRequest,
  ): Promise<readonly unknown[]> {
    const version = conversionReviewVersions.find((name) => name === 'v1' || name === 'v1beta1') ?? 'v1';
    const uid = randomUUID();
    const review = {
      kind: 'ConversionReview',
      apiVersion: `apiextensions.k8s.io/${version}`,
      request: { uid, desiredAPIVersion, objects },
    };
    const body = Buffer.from(stringifyExact(review));
    const text = await this.#post(clientConfig, body, signal);
    // parsing takes time on the event loop by the number of values, which a webhook can multiply within any bound of bytes
    const values = countValues(text);
    const maxValues = maxBodyValues + maxAnswerValuesFactor * countValues(body);
    if (values > maxValues) throw new Error(`invalid response: ${values} values, at most ${maxValues} are expected`);
    const answer: unknown = parseExact(text.toString('utf8'));
    const { response, apiVersion, kind } = (isObject(answer) ? answer : {}) as Readonly<Record<string, unknown>>;
    if (apiVersion !== review.apiVersion || kind !== review.kind)
      throw new Error(
        `invalid response: expected ${review.apiVersion}, Kind=ConversionReview, got ${quoted(apiVersion)}, Kind=${quoted(kind)}`,
      );
    if (!isObject(response)) throw new Error('no response provided');
    if (response['uid'] !== uid) throw new Error(`expected response.uid="${uid}", got "${quoted(response['uid'])}"`);
    const { result, convertedObjects } = response;
    const { status, message } = (isObject(result) ? result : {}) as { readonly status?: unknown; readonly message?: unknown };
    if (status !== 'Success') {
      if (typeof message === 'string' && message !== '') throw new Error(quoted(message));
      throw new Error(
        status === undefined || status === ''
          ? 'response.result.status not set'
          : `response.result.status was '${quoted(status)}', not 'Success'`,
      );
    }
    if (!Array.isArray(convertedObjects)) throw new Error('no converted objects provided');
    return convertedObjects as unknown[];
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  #post(client: WebhookClientConfig, body: Buffer, signal: AbortSignal | undefined): Promise<Buffer> {
    return this.#attempt({ client, body, signal, timeout: AbortSignal.timeout(timeoutMs) }, false);
  }

  /** Sends the request. If a reused connection was closed, sends the request once more on a new connection. */
  #attempt(call: WebhookCall, onNewConnection: boolean): Promise<Buffer> {
    const { client, body, signal, timeout } = call;
    const { url, address } = this.#target(client);
    const agent = this.#agentFor(client, url.hostname);
    return new Promise((resolve, reject) => {
      const failed = (error: Error) => {
        const reason = timeout.aborted ? 'context deadline exceeded' : goErrorText(error, ends());
        reject(new Error(requestErrorText('POST', `${url.href}?timeout=${timeoutMs / 1000}s`, reason), { cause: error }));
      };
      const request = httpsRequest(
        {
          ...(onNewConnection ? { ...agent.options, agent: false } : { agent }),
          ...address,
          // the server name for TLS must not be an IP address
          ...(isIP(withoutBrackets(url.hostname)) === 0 && { servername: url.hostname }),
          path: `${url.pathname}?timeout=${timeoutMs / 1000}s`,
          method: 'POST',
          headers: {
            host: url.host,
            'content-type': 'application/json',
            accept: 'application/json, */*',
            'user-agent': 'kube-apiserver-admission',
            'content-length': body.length,
          },
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        },
        (response) => {
          const chunks: Buffer[] = [];
          let size = 0;
          response.on('data', (chunk: Buffer) => {
            size += chunk.length;
            if (size > maxAnswerBytes) response.destroy(new Error(`the response exceeds ${maxAnswerBytes} bytes`));
            else chunks.push(chunk);
          });
          response.once('error', failed);
          response.once('end', () => {
            const content = Buffer.concat(chunks);
            const code = response.statusCode ?? 0;
            if (code === 200) resolve(content);
            else reject(new Error(`the server responded with status ${code}: ${content.toString('utf8', 0, 512)}`));
          });
        },
      );
      const ends = connectionEnds(request);
      rejectUpgrade(request);
      request.once('error', (error) => {
        if (isStaleConnection(request, error) && !timeout.aborted && signal?.aborted !== true) resolve(this.#attempt(call, true));
        else failed(error);
      });
      request.end(body);
    });
  }

  #target({ url, service }: WebhookClientConfig): {
    readonly url: URL;
    readonly address: ServiceAddress;
  } {
    if (url !== undefined) {
      const target = new URL(url);
      return { url: target, address: { host: withoutBrackets(target.hostname), port: Number(target.port || 443) } };
    }
    if (service === undefined) throw new Error('neither url nor service is set');
    const { namespace, name, port = 443, path = '/' } = service;
    // certificates are issued for the Service's DNS name, whatever endpoint is called
    return { url: new URL(`https://${name}.${namespace}.svc:${port}${path}`), address: this.#resolve(namespace, name, port) };
  }

  #agentFor({ caBundle = '' }: WebhookClientConfig, host: string): Agent {
    const key = `${host}\n${caBundle}`;
    let agent = this.#agents.get(key);
    if (agent === undefined) {
      if (this.#agents.size >= maxAgents) {
        const [[oldest, unused] = []] = this.#agents;
        if (oldest !== undefined) this.#agents.delete(oldest);
        unused?.destroy();
      }
      agent = new Agent({
        ...(caBundle !== '' && { ca: Buffer.from(caBundle, 'base64') }),
        minVersion: 'TLSv1.2',
        checkServerIdentity: checkSubjectAlternativeNames,
        keepAlive: true,
        maxSockets,
        maxFreeSockets: 8,
      });
      this.#agents.set(key, agent);
    }
    return agent;
  }
}
