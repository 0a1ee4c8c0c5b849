import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { request as plainRequest } from 'node:http';

export interface JsonEndpoint {
  /** `https://...`; `http://` only to this very host (127.0.0.1 or ::1). */
  readonly url: string;
  /** PEM file of the CA that signed its certificate; the system's CAs unless given. */
  readonly caFile?: string | undefined;
  /** PEM files with which this client proves who it is. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Sent as a bearer token. */
  readonly tokenFile?: string | undefined;
}

export interface JsonAnswer {
  readonly code: number;
  readonly body: unknown;
}

const maxBytes = 4 * 1024 * 1024;
const maxSockets = 32;
const here: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

/** Whether an endpoint may be asked: nobody on the way may read or change what is decided there. */
export function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || (protocol === 'http:' && here.has(hostname));
}

function jsonOf(text: string): { readonly value: unknown } | Error {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/**
 * Talks JSON to a service outside that decides something for this server. Files are read when it is made; connections are kept. An answer is at most 4 MiB.
 * @throws Error from a call when there is no answer, the deadline has passed, or it is no JSON
 */
export class JsonClient {
  readonly #endpoint: JsonEndpoint;
  readonly #agent: Agent | undefined;
  readonly #token: string | undefined;

  constructor(endpoint: JsonEndpoint) {
    const { url, caFile, certificateFile, keyFile, tokenFile } = endpoint;
    this.#endpoint = endpoint;
    const read = (file: string | undefined) => (file === undefined ? undefined : readFileSync(file, 'utf8'));
    const [ca, cert, key] = [read(caFile), read(certificateFile), read(keyFile)];
    this.#agent = url.startsWith('https:')
      ? new Agent({ keepAlive: true, maxSockets, minVersion: 'TLSv1.2', ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) })
      : undefined;
    this.#token = read(tokenFile)?.trim();
  }

  post(body: unknown, timeoutMs: number): Promise<JsonAnswer> {
    return this.#ask('POST', this.#endpoint.url, JSON.stringify(body), timeoutMs);
  }
  /** Of a URL that need not be the endpoint's own; the token stays here then. */
  get(url: string, timeoutMs: number): Promise<JsonAnswer> {
    return this.#ask('GET', url, undefined, timeoutMs);
  }
  close(): void {
    this.#agent?.destroy();
  }

  #ask(method: 'GET' | 'POST', url: string, body: string | undefined, timeoutMs: number): Promise<JsonAnswer> {
    return new Promise((resolve, reject) => {
      const headers = {
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        ...(this.#token !== undefined && url === this.#endpoint.url && { authorization: `Bearer ${this.#token}` }),
      };
      const options = { method, headers, signal: AbortSignal.timeout(timeoutMs) };
      const sent = url.startsWith('https:')
        ? request(url, { ...options, ...(this.#agent && { agent: this.#agent }) })
        : plainRequest(url, options);
      sent.on('error', reject);
      sent.on('response', (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxBytes) sent.destroy(new Error(`the answer of ${new URL(url).host} is larger than ${maxBytes} bytes`));
          else chunks.push(chunk);
        });
        response.on('error', reject);
        response.on('end', () => {
          const code = response.statusCode ?? 0;
          const parsed = jsonOf(Buffer.concat(chunks).toString('utf8'));
          if (parsed instanceof Error) reject(new Error(`${new URL(url).host} answered ${code} and no JSON`, { cause: parsed }));
          else resolve({ code, body: parsed.value });
        });
      });
      sent.end(body);
    });
  }
}
