import { Agent, request, type AgentOptions } from 'node:https';
import { request as plainRequest, type OutgoingHttpHeaders } from 'node:http';
import { checkSubjectAlternativeNames, isStaleConnection, rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { clientTimeout, connectionEnds, goErrorText, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { readEndpoint, type Endpoint, type JsonEndpoint } from './endpoint-config.ts';

export interface JsonResponse {
  readonly code: number;
  readonly body: unknown;
}

interface FormOptions {
  readonly timeoutMs: number;
  /** The value of the header; by default the header is not sent to other URLs than the endpoint's. */
  readonly authorization?: string;
}

interface TextResponse {
  readonly code: number;
  readonly text: string;
}

interface Message {
  readonly url: string;
  readonly body: string | undefined;
  /** By default JSON. */
  readonly contentType?: string;
  /** The value of the header; by default the bearer token of the endpoint, which is sent only to the URL of the endpoint. */
  readonly authorization?: string | undefined;
}

const maxBytes = 4 * 1024 * 1024;
const maxSockets = 32;

function jsonOf(text: string): { readonly value: unknown } | Error {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/**
 * A JSON client for an external service that makes decisions for this server. Reads its files when it is created, keeps connections alive,
 * and repeats a request once on a new connection if a reused connection was closed. A response can have at most 4 MiB.
 * @throws Error from each call if there is no response, the timeout has expired, or the response is not JSON
 */
export class JsonClient {
  readonly #endpoint: Endpoint;
  readonly #tls: AgentOptions;
  readonly #agent: Agent;

  constructor(endpoint: JsonEndpoint) {
    this.#endpoint = readEndpoint(endpoint);
    const { ca, certificate: cert, key } = this.#endpoint;
    this.#tls = {
      minVersion: 'TLSv1.2',
      checkServerIdentity: checkSubjectAlternativeNames,
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
    };
    this.#agent = new Agent({ keepAlive: true, maxSockets, ...this.#tls });
  }

  async post(body: unknown, timeoutMs: number): Promise<JsonResponse> {
    return this.#parsed(this.#endpoint.url, await this.#send('POST', { url: this.#endpoint.url, body: JSON.stringify(body), timeoutMs }));
  }
  /** Gets the JSON at any URL. The bearer token is sent only to the URL of the endpoint. */
  async get(url: string, timeoutMs: number): Promise<JsonResponse> {
    return this.#parsed(url, await this.#send('GET', { url, body: undefined, timeoutMs }));
  }
  /** Posts a form to any URL and returns the JSON of the response, as the token endpoint of RFC 6749 expects. */
  async postForm(url: string, form: Readonly<Record<string, string>>, options: FormOptions): Promise<JsonResponse> {
    return this.#parsed(url, await this.#sendForm(url, form, options));
  }
  /** Posts a form as `postForm` does; returns only the status code of the response, which may have no JSON. */
  async sendForm(url: string, form: Readonly<Record<string, string>>, options: FormOptions): Promise<number> {
    return (await this.#sendForm(url, form, options)).code;
  }
  /** Posts a text that is JSON already; returns only the status code of the response. */
  async send(text: string, timeoutMs: number): Promise<number> {
    return (await this.#send('POST', { url: this.#endpoint.url, body: text, timeoutMs })).code;
  }
  close(): void {
    this.#agent.destroy();
  }

  #sendForm(url: string, form: Readonly<Record<string, string>>, { timeoutMs, authorization }: FormOptions): Promise<TextResponse> {
    const body = new URLSearchParams(form).toString();
    return this.#send('POST', { url, body, contentType: 'application/x-www-form-urlencoded', authorization, timeoutMs });
  }

  #parsed(url: string, { code, text }: TextResponse): JsonResponse {
    const parsed = jsonOf(text);
    if (parsed instanceof Error) throw new Error(`${new URL(url).host} responded with ${code} without JSON`, { cause: parsed });
    return { code, body: parsed.value };
  }

  #send(method: 'GET' | 'POST', { timeoutMs, ...message }: Message & { readonly timeoutMs: number }): Promise<TextResponse> {
    return this.#attempt(method, { message, signal: AbortSignal.timeout(timeoutMs), fresh: false });
  }

  #attempt(
    method: 'GET' | 'POST',
    { message, signal, fresh }: { readonly message: Message; readonly signal: AbortSignal; readonly fresh: boolean },
  ): Promise<TextResponse> {
    const { url, body } = message;
    return new Promise((resolve, reject) => {
      const headers = this.#headersOf(message);
      const options = { method, headers, signal, ...(fresh && { agent: false }) };
      const sent = url.startsWith('https:')
        ? request(url, fresh ? { ...this.#tls, ...options } : { ...options, agent: this.#agent })
        : plainRequest(url, options);
      const ends = connectionEnds(sent);
      const fail = (cause: unknown) =>
        reject(new Error(requestErrorText(method, url, signal.aborted ? clientTimeout : goErrorText(cause, ends())), { cause }));
      rejectUpgrade(sent);
      let answered = false;
      sent.on('error', (error) => {
        if (!answered && !signal.aborted && isStaleConnection(sent, error))
          resolve(this.#attempt(method, { message, signal, fresh: true }));
        else fail(error);
      });
      sent.on('response', (response) => {
        answered = true;
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxBytes) sent.destroy(new Error(`the response of ${new URL(url).host} is larger than ${maxBytes} bytes`));
          else chunks.push(chunk);
        });
        response.on('error', fail);
        response.on('end', () => {
          resolve({ code: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') });
        });
      });
      sent.end(body);
    });
  }

  #headersOf({ url, body, contentType = 'application/json', authorization }: Message): OutgoingHttpHeaders {
    const { token } = this.#endpoint;
    const credentials = authorization ?? (token !== undefined && url === this.#endpoint.url ? `Bearer ${token}` : undefined);
    return {
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': contentType, 'content-length': Buffer.byteLength(body) }),
      ...(credentials !== undefined && { authorization: credentials }),
    };
  }
}
