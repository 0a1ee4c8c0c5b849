import { Agent, request, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '@oarlock/kernel/clock';
import { RuntimeError } from '@oarlock/spi/runtime';
import { engineError, transportError } from './engine-errors.ts';

export interface EngineClientOptions {
  readonly socket: string;
  /** For an answer, where a call says nothing else. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export interface EngineCall {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON; a Buffer as it is. */
  readonly body?: object | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A connection that carries the bytes of a session. */
export interface Hijacked {
  readonly socket: Socket;
  /** What came with the answer already. */
  readonly head: Buffer;
}

/** The newest version of the API whose shapes we know; older ones back to the oldest are asked in their own. */
const newest = [1, 48] as const; // of 28.0
const oldest = [1, 41] as const; // of 20.10
const longestAnswer = 64 * 1024 * 1024;
const longestError = 64 * 1024;

/** The Docker Engine API over its unix socket. */
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

  /** Of version 1 of the API, in which it is asked. */
  async minor(signal?: AbortSignal): Promise<number> {
    if (this.#version === undefined) await this.negotiate(signal);
    return Number((await this.#version)?.split('.')[1]);
  }

  /** Asks again which version the engine speaks: it may be another engine by now. @throws RuntimeError `Unavailable`, `Unsupported` */
  async negotiate(signal?: AbortSignal): Promise<void> {
    const version = this.#ask(signal);
    this.#version = version;
    // whoever calls next asks for themselves
    version.catch(() => {
      if (this.#version === version) this.#version = undefined;
    });
    await version;
  }

  async #ask(signal?: AbortSignal): Promise<string> {
    const answer = await this.#send('GET', '/_ping', { signal });
    await text(answer, longestError);
    const said = String(answer.headers['api-version'] ?? '');
    const [major = 0, minor = 0] = said.split('.').map(Number);
    if (major !== oldest[0] || minor < oldest[1])
      throw new RuntimeError(
        'Unsupported',
        `the docker engine speaks version ${said || '?'} of its API; 1.41 (docker 20.10) or newer is needed`,
      );
    return `v${major}.${Math.min(minor, newest[1])}`;
  }

  /** @throws RuntimeError; whatever the signal aborts with */
  async call<T = void>(method: string, path: string, call: EngineCall = {}): Promise<T> {
    const answer = await this.open(method, path, call);
    const body = await text(answer, longestAnswer);
    return (body === '' || !/json/.test(answer.headers['content-type'] ?? '') ? undefined : JSON.parse(body)) as T;
  }

  /** The answer as it comes, which has to be read or destroyed. The timeout holds until it begins. */
  async open(method: string, path: string, call: EngineCall = {}): Promise<IncomingMessage> {
    if (this.#version === undefined) await this.negotiate(call.signal);
    const answer = await this.#send(method, `/${await this.#version}${path}`, call);
    const status = answer.statusCode ?? 0;
    if (status < 400) return answer;
    throw engineError(status, messageOf(await text(answer, longestError)));
  }

  /** Turns the connection of a request into one of bytes both ways. */
  async hijack(path: string, call: EngineCall = {}): Promise<Hijacked> {
    if (this.#version === undefined) await this.negotiate(call.signal);
    const headers = { ...call.headers, Connection: 'Upgrade', Upgrade: 'tcp' };
    const answer = await this.#send('POST', `/${await this.#version}${path}`, { ...call, headers }, true);
    if ('socket' in answer && 'head' in answer) return answer as Hijacked;
    throw engineError(answer.statusCode ?? 0, messageOf(await text(answer, longestError)));
  }

  #send(method: string, path: string, call: EngineCall, hijacks: true): Promise<IncomingMessage | Hijacked>;
  #send(method: string, path: string, call: EngineCall): Promise<IncomingMessage>;
  #send(method: string, path: string, call: EngineCall, hijacks = false): Promise<IncomingMessage | Hijacked> {
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
      const sent = request({
        socketPath: socket,
        method,
        path: search === '' ? path : `${path}?${search}`,
        headers,
        ...(hijacks ? { agent: false as const } : { agent: this.#agent }),
      });
      const timer = clock.after(timeoutMs, () =>
        sent.destroy(
          new RuntimeError('DeadlineExceeded', `the docker engine did not answer ${method} ${path} within ${timeoutMs / 1000} s`),
        ),
      );
      const abort = () => sent.destroy(signal?.reason as Error);
      signal?.addEventListener('abort', abort, { once: true });
      const settle = () => timer.cancel();
      sent.once('close', () => signal?.removeEventListener('abort', abort));
      sent.once('response', (answer) => {
        settle();
        resolve(answer);
      });
      sent.once('upgrade', (_answer, upgraded: Socket, head: Buffer) => {
        settle();
        signal?.removeEventListener('abort', abort);
        resolve({ socket: upgraded, head });
      });
      sent.on('error', (error: NodeJS.ErrnoException) => {
        settle();
        if (signal?.aborted) reject(signal.reason as Error);
        else if (error instanceof RuntimeError) reject(error);
        // the engine closed a connection that we had kept: it has not seen the request
        else if (sent.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')) resolve(this.#send(method, path, call));
        else reject(transportError(socket, error));
      });
      sent.end(bytes);
    });
  }
}

async function text(answer: IncomingMessage, most: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer) {
      size += (chunk as Buffer).length;
      if (size > most) throw new RuntimeError('Internal', `an answer of the docker engine is longer than ${most} bytes`);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof RuntimeError) throw error;
    throw new RuntimeError('Unavailable', `an answer of the docker engine broke off: ${(error as Error).message}`, { cause: error });
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
