import { Agent, request, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import { isStaleConnection } from '@oarlock/primitives/net/keep-alive-connection';
import { RuntimeError } from '@oarlock/spi/runtime';
import { engineError, transportError } from './engine-errors.ts';

export interface EngineClientOptions {
  readonly socket: string;
  /** The default time until a response must begin. Milliseconds. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export interface EngineCall {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** The request body. An object is sent as JSON, a Buffer as a tar archive. */
  readonly body?: object | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A connection that was upgraded to carry the bytes of a session. */
export interface HijackedConnection {
  readonly socket: Socket;
  /** The bytes that arrived together with the response. */
  readonly head: Buffer;
}

/** The newest API version that this client supports. With an older engine, the client uses the engine's version, down to `oldestVersion`. */
const newestVersion = [1, 48] as const; // Docker 28.0
const oldestVersion = [1, 41] as const; // Docker 20.10
const maxResponseBytes = 64 * 1024 * 1024;
const maxErrorBytes = 64 * 1024;

/** A client of the Docker Engine API on a Unix socket. */
export class EngineClient {
  readonly #options: EngineClientOptions;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 16 });
  #version: Promise<string> | undefined;

  constructor(options: EngineClientOptions) {
    this.#options = options;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Returns the minor version of the API 1.x in use. */
  async minor(signal?: AbortSignal): Promise<number> {
    if (this.#version === undefined) await this.negotiate(signal);
    return Number((await this.#version)?.split('.')[1]);
  }

  /**
   * Negotiates the API version again, because the engine may have been replaced.
   * @throws RuntimeError `Unavailable` if the engine does not answer, `Unsupported` if it is too old
   */
  async negotiate(signal?: AbortSignal): Promise<void> {
    const version = this.#fetchVersion(signal);
    this.#version = version;
    // after a failure the next call negotiates again
    version.catch(() => {
      if (this.#version === version) this.#version = undefined;
    });
    await version;
  }

  async #fetchVersion(signal?: AbortSignal): Promise<string> {
    const response = await this.#send('GET', '/_ping', { signal });
    await text(response, maxErrorBytes);
    const version = String(response.headers['api-version'] ?? '');
    const [major = 0, minor = 0] = version.split('.').map(Number);
    if (major !== oldestVersion[0] || minor < oldestVersion[1])
      throw new RuntimeError(
        'Unsupported',
        `the docker engine supports API version ${version || '?'}; 1.41 (docker 20.10) or newer is required`,
      );
    return `v${major}.${Math.min(minor, newestVersion[1])}`;
  }

  /**
   * Makes a call and returns the parsed JSON response; undefined if the response is not JSON.
   * @throws RuntimeError if the call fails, the signal's reason if the signal aborts
   */
  async call<T = void>(method: string, path: string, call: EngineCall = {}): Promise<T> {
    const response = await this.open(method, path, call);
    const body = await text(response, maxResponseBytes);
    return (body === '' || !/json/.test(response.headers['content-type'] ?? '') ? undefined : JSON.parse(body)) as T;
  }

  /** Returns the response as a stream, which the caller must read or destroy. The timeout ends when the response begins. */
  async open(method: string, path: string, call: EngineCall = {}): Promise<IncomingMessage> {
    if (this.#version === undefined) await this.negotiate(call.signal);
    const response = await this.#send(method, `/${await this.#version}${path}`, call);
    const status = response.statusCode ?? 0;
    if (status < 400) return response;
    throw engineError(status, messageOf(await text(response, maxErrorBytes)));
  }

  /** Makes a POST request and upgrades its connection to a byte stream in both directions. */
  async hijack(path: string, call: EngineCall = {}): Promise<HijackedConnection> {
    if (this.#version === undefined) await this.negotiate(call.signal);
    const headers = { ...call.headers, Connection: 'Upgrade', Upgrade: 'tcp' };
    const response = await this.#send('POST', `/${await this.#version}${path}`, { ...call, headers }, true);
    if ('socket' in response && 'head' in response) return response as HijackedConnection;
    throw engineError(response.statusCode ?? 0, messageOf(await text(response, maxErrorBytes)));
  }

  #send(method: string, path: string, call: EngineCall, upgrade: true): Promise<IncomingMessage | HijackedConnection>;
  #send(method: string, path: string, call: EngineCall): Promise<IncomingMessage>;
  #send(method: string, path: string, call: EngineCall, upgrade = false): Promise<IncomingMessage | HijackedConnection> {
    const { socket, clock } = this.#options;
    const { query = {}, body, signal, timeoutMs = this.#options.timeoutMs } = call;
    signal?.throwIfAborted();
    const parameters = Object.entries(query).filter((pair): pair is [string, string | number | boolean] => pair[1] !== undefined);
    const search = new URLSearchParams(parameters.map(([key, value]): [string, string] => [key, String(value)])).toString();
    const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const headers = {
      Host: 'docker',
      ...(bytes && { 'Content-Type': Buffer.isBuffer(body) ? 'application/x-tar' : 'application/json', 'Content-Length': bytes.length }),
      ...call.headers,
    };
    return new Promise((resolve, reject) => {
      const outgoing = request({
        socketPath: socket,
        method,
        path: search === '' ? path : `${path}?${search}`,
        headers,
        ...(upgrade ? { agent: false as const } : { agent: this.#agent }),
      });
      const timer = clock.after(timeoutMs, () =>
        outgoing.destroy(
          new RuntimeError('DeadlineExceeded', `the docker engine did not answer ${method} ${path} within ${timeoutMs / 1000} s`),
        ),
      );
      const abort = () => outgoing.destroy(signal?.reason as Error);
      signal?.addEventListener('abort', abort, { once: true });
      const settle = () => timer.cancel();
      outgoing.once('close', () => signal?.removeEventListener('abort', abort));
      outgoing.once('response', (response) => {
        settle();
        resolve(response);
      });
      outgoing.once('upgrade', (_response, upgraded: Socket, head: Buffer) => {
        settle();
        signal?.removeEventListener('abort', abort);
        resolve({ socket: upgraded, head });
      });
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        settle();
        if (signal?.aborted) reject(signal.reason as Error);
        else if (error instanceof RuntimeError) reject(error);
        // the engine closed an idle connection of the pool and has not received the request: retry
        else if (isStaleConnection(outgoing, error)) resolve(this.#send(method, path, call));
        else reject(transportError(socket, error));
      });
      outgoing.end(bytes);
    });
  }
}

async function text(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      if (size > maxBytes) throw new RuntimeError('Internal', `a response of the docker engine is longer than ${maxBytes} bytes`);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof RuntimeError) throw error;
    throw new RuntimeError('Unavailable', `a response of the docker engine is incomplete: ${(error as Error).message}`, { cause: error });
  }
  return Buffer.concat(chunks).toString('utf8');
}

function messageOf(body: string): string {
  try {
    return String((JSON.parse(body) as { message?: unknown }).message ?? body);
  } catch {
    return body.trim();
  }
}
