import { isIP } from 'node:net';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/kernel/clock';
import { Backoff } from './backoff.ts';
import { Http1Connection } from './http1-connection.ts';
import { Http2Connection } from './http2-connection.ts';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from './http-connection.ts';

export interface HttpTransportOptions {
  readonly server: URL;
  readonly tls: ConnectionOptions;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
}

/** A certificate with its key, and the CAs that are trusted; PEM. What is left out stays as it is. */
export interface Shown {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

const dialMs = 10_000;
const maxConnections = 16;
const retireMs = 60_000;

/**
 * Ways to one server: an HTTP/2 session that all requests share, a further one when its streams are used up, or HTTP/1.1 where the server
 * speaks no newer. Connects when it is first needed and again after a loss; attempts in a row are 0.1 to 5 s apart.
 */
export class HttpTransport {
  #options: HttpTransportOptions;
  readonly #backoff: Backoff;
  #connections: HttpConnection[] = [];
  #dialing: Promise<HttpConnection> | undefined;
  readonly #retired = new Set<HttpConnection>();
  readonly #closed = new AbortController();
  /** By the monotonic clock. */
  #notBefore = 0;

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ firstMs: 100, longestMs: 5000, jitter: 0.5, random: options.random });
  }

  /** Sends again what the server has surely not acted on, and what only reads. @throws TransportError, or the signal's reason */
  async request(request: HttpRequest): Promise<HttpResponse> {
    for (let attempt = 1; ; attempt += 1) {
      const connection = await this.#connection(request.signal);
      try {
        return await connection.request(request);
      } catch (error) {
        const again = error instanceof TransportError && (error.code === 'Refused' || (error.code === 'Lost' && request.method === 'GET'));
        if (!again || attempt >= 3) throw error;
      }
    }
  }

  /** Shows and trusts what is given from now on. Connections from before take nothing new, and end a minute later. */
  renew(shown: Shown): void {
    this.#options = { ...this.#options, tls: { ...this.#options.tls, ...shown } };
    const former = this.#connections;
    this.#connections = [];
    for (const connection of former) {
      this.#retired.add(connection);
      this.#options.clock.after(retireMs, () => {
        this.#retired.delete(connection);
        connection.destroy();
      });
    }
  }

  close(): void {
    for (const connection of this.#retired) connection.destroy();
    this.#closed.abort(new TransportError('Closed', 'the client is closed'));
    for (const connection of this.#connections) connection.destroy();
    this.#connections = [];
  }

  async #connection(signal: AbortSignal | undefined): Promise<HttpConnection> {
    this.#closed.signal.throwIfAborted();
    this.#connections = this.#connections.filter(({ gone }) => !gone);
    const ready = this.#connections.find(({ usable }) => usable);
    if (ready !== undefined) return ready;
    if (this.#connections.length >= maxConnections)
      throw new TransportError('ConnectFailed', `all ${maxConnections} connections are used up`);
    if (this.#dialing === undefined) {
      this.#dialing = this.#dial().finally(() => {
        this.#dialing = undefined;
      });
      this.#dialing.catch(() => undefined); // whoever waits is told; it may be that nobody does any more
    }
    return abortable(this.#dialing, signal);
  }

  /** Shared by all who need a connection now. */
  async #dial(): Promise<HttpConnection> {
    const { server, tls, clock } = this.#options;
    const wait = this.#notBefore - clock.monotonic();
    if (wait > 0) await clock.sleep(wait, this.#closed.signal);
    try {
      const connection = server.protocol === 'https:' ? await this.#negotiate() : new Http1Connection(server, tls);
      this.#backoff.reset();
      this.#connections.push(connection);
      return connection;
    } catch (error) {
      this.#notBefore = clock.monotonic() + this.#backoff.next();
      throw error;
    }
  }

  async #negotiate(): Promise<HttpConnection> {
    const { server, tls, clock } = this.#options;
    const host = server.hostname.replace(/^\[|\]$/g, '');
    const options: ConnectionOptions = {
      ...tls,
      host,
      port: Number(server.port || 443),
      ALPNProtocols: ['h2', 'http/1.1'],
      ...(tls.servername === undefined && isIP(host) === 0 && { servername: host }),
    };
    const socket = await new Promise<TLSSocket>((resolve, reject) => {
      const dialing = connect(options);
      const give = (error: Error) => {
        timer.cancel();
        dialing.destroy();
        reject(error);
      };
      const fail = (cause: Error) => give(new TransportError('ConnectFailed', cause.message, { cause }));
      const timer = clock.after(dialMs, () =>
        give(new TransportError('ConnectFailed', `no connection to ${server.host} within ${dialMs / 1000} s`)),
      );
      const closed = () => give(this.#closed.signal.reason as Error);
      this.#closed.signal.addEventListener('abort', closed, { once: true });
      dialing.once('error', fail);
      dialing.once('secureConnect', () => {
        timer.cancel();
        dialing.off('error', fail);
        this.#closed.signal.removeEventListener('abort', closed);
        resolve(dialing);
      });
    });
    if (socket.alpnProtocol === 'h2') return new Http2Connection(server.origin, socket, clock);
    socket.destroy();
    return new Http1Connection(server, tls);
  }
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
