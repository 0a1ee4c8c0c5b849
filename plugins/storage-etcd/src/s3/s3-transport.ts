import { readFile } from 'node:fs/promises';
import { request as plainRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { Clock } from '@oarlock/primitives/clock';
import { requireEnd, requireProgress } from '@oarlock/primitives/net/body-progress';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { readCredentials } from './credentials-file.ts';
import { canonicalQuery, encodeComponent, sha256, signRequest } from './signature-v4.ts';
import { responseError, S3Error } from './s3-error.ts';

export interface S3Settings {
  /** `https://host[:port]`. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly credentialsFile: string;
  readonly profile: string;
  /** CA of the endpoint; default: the system's. */
  readonly caFile?: string | undefined;
  /** True if the bucket is part of the host name instead of the path. */
  readonly virtualHost: boolean;
}

export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** Empty for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal: AbortSignal;
}

/** A connection without traffic for this time has failed. */
const idleTimeoutMs = 60_000;
const attempts = 4;
const [firstPauseMs, longestPauseMs] = [500, 10_000];
/** Maximum size of a response that is not a stream: a list has at most 1000 keys of 1 KiB. */
const maxTextBytes = 4 * 1024 * 1024;
const textTimeoutMs = 60_000;

/** Sends signed requests to a bucket, each on a connection of its own. Failures that may pass are retried: all requests can be repeated. */
export class S3Transport {
  readonly #settings: S3Settings;
  readonly #clock: Clock;

  constructor(settings: S3Settings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** Sends a request and returns the body of its response, with its headers. @throws S3Error */
  async text(request: S3Request): Promise<{ readonly body: string; readonly headers: IncomingMessage['headers'] }> {
    return this.#repeated(request.signal, async () => {
      const response = await this.#send(request);
      return { body: await textOf(response, this.#clock), headers: response.headers };
    });
  }

  /** Sends a request and returns the response as a stream. @throws S3Error */
  async stream(request: S3Request): Promise<IncomingMessage> {
    return this.#repeated(request.signal, () => this.#send(request));
  }

  async #repeated<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await work();
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof S3Error) || error.code !== 'Unavailable' || attempt >= attempts) throw error;
        await this.#clock.sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** attempt), signal);
      }
    }
  }

  async #send({ method, key, query = {}, body, signal }: S3Request): Promise<IncomingMessage> {
    const { region, credentialsFile, profile, caFile } = this.#settings;
    const url = this.#url(key, query);
    const credentials = await readCredentials(credentialsFile, profile);
    const length = method === 'PUT' || method === 'POST' ? { 'content-length': String(body?.length ?? 0) } : {};
    const headers = signRequest(
      { method, url, headers: length, payloadHash: sha256(body ?? '') },
      { credentials, region, now: this.#clock.now() },
    );
    const ca = caFile === undefined ? undefined : await readFile(caFile);
    const options = { method, headers, signal, agent: false, ...(ca && { ca }) };
    const response = await exchange(url, options, body);
    requireProgress(response, this.#clock);
    const { statusCode = 0 } = response;
    if (statusCode >= 200 && statusCode < 300) return response;
    throw responseError(`${method} ${this.describe(key)}`, statusCode, await textOf(response, this.#clock));
  }

  /** Returns the URI of a key for messages. */
  describe(key: string): string {
    return `s3://${this.#settings.bucket}/${key}`;
  }

  #url(key: string, query: Readonly<Record<string, string>>): URL {
    const { endpoint, bucket, virtualHost } = this.#settings;
    const url = new URL(endpoint);
    if (virtualHost) url.hostname = `${bucket}.${url.hostname}`;
    const path = key.split('/').map(encodeComponent).join('/');
    url.pathname = virtualHost ? `/${path}` : `/${encodeComponent(bucket)}${key === '' ? '' : `/${path}`}`;
    url.search = canonicalQuery(Object.entries(query));
    return url;
  }
}

function exchange(url: URL, options: RequestOptions, body: Uint8Array | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) =>
      reject(new S3Error('Unavailable', `${url.origin} cannot be reached: ${goErrorText(error)}`, { cause: error }));
    const request = (url.protocol === 'https:' ? tlsRequest : plainRequest)(url, options, resolve);
    rejectUpgrade(request);
    request.setTimeout(idleTimeoutMs, () => request.destroy(new Error(`no traffic for ${idleTimeoutMs / 1000} s`)));
    request.on('error', fail);
    request.end(body);
  });
}

async function textOf(response: IncomingMessage, clock: Clock): Promise<string> {
  requireEnd(response, { clock, withinMs: textTimeoutMs });
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxTextBytes) throw new S3Error('Rejected', `the response of the store has more than ${maxTextBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof S3Error) throw error;
    throw new S3Error('Unavailable', `the response of the store ended early: ${(error as Error).message}`, { cause: error });
  }
  return Buffer.concat(chunks).toString('utf8');
}
