import { isIP } from 'node:net';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/primitives/clock';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { Backoff } from '@oarlock/primitives/backoff';
import { Http1Connection } from './http1-connection.ts';
import { Http2Connection } from './http2-connection.ts';
import type { ServerList } from '../server-list.ts';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from '../connection.ts';

export interface HttpTransportOptions {
  readonly servers: ServerList;
  readonly tls: ConnectionOptions;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
}

/** A certificate with its key, and trusted CAs; PEM. Absent fields stay unchanged. */
export interface TlsMaterial {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

const maxConnections = 16;
/** Time in milliseconds for which connections with a previous certificate stay open. */
const retireMs = 60_000;

/**
 * Connections to one server of a list: an HTTP/2 session that all requests share, a further session when its streams are used up, or HTTP/1.1 if the
 * server does not support HTTP/2. Connects at the first request and after a connection loss: to each server of the list once without a delay, then
 * with a backoff of 0.1 to 5 s that a successful connection resets.
 */
export class HttpTransport {
  #options: HttpTransportOptions;
  readonly #backoff: Backoff;
  #connections: HttpConnection[] = [];
  #dialing: Promise<HttpConnection> | undefined;
  readonly #retired = new Set<HttpConnection>();
  readonly #closed = new AbortController();
  /** Earliest time of the next attempt, of the monotonic clock. */
  #notBefore = 0;

  readonly #unsubscribe: () => void;

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    this.#unsubscribe = options.servers.onChange(() => {
      for (const connection of this.#connections) connection.restartMonitor?.();
    });
    this.#backoff = new Backoff({ firstMs: 100, longestMs: 5000, jitter: 0.5, random: options.random });
  }

  /** Sends a request. Retries if the server has certainly not processed it, or if it is a GET. @throws TransportError, or the signal's reason */
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

  /** Changes certificate and CAs. Existing connections get no new requests, and are closed a minute later. */
  updateCertificates(material: TlsMaterial): void {
    this.#options = { ...this.#options, tls: { ...this.#options.tls, ...material } };
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
    this.#unsubscribe();
    for (const connection of this.#retired) connection.destroy();
    this.#closed.abort(new TransportError('Closed', 'the client is closed'));
    for (const connection of this.#connections) connection.destroy();
    this.#connections = [];
  }

  async #connection(signal: AbortSignal | undefined): Promise<HttpConnection> {
    this.#closed.signal.throwIfAborted();
    this.#connections = this.#connections.filter(({ isClosed }) => !isClosed);
    const ready = this.#connections.find(({ isUsable }) => isUsable);
    if (ready !== undefined) return ready;
    if (this.#connections.length >= maxConnections)
      throw new TransportError('ConnectFailed', `all ${maxConnections} connections are used up`);
    if (this.#dialing === undefined) {
      this.#dialing = this.#dial().finally(() => {
        this.#dialing = undefined;
      });
      this.#dialing.catch(() => undefined); // the waiting requests receive the rejection; there may be none left
    }
    return abortable(this.#dialing, signal);
  }

  /** Connects to the first server of the list that answers. Shared by all requests that wait for a connection. */
  async #dial(): Promise<HttpConnection> {
    const { servers, tls, clock } = this.#options;
    const wait = this.#notBefore - clock.monotonic();
    if (wait > 0) await clock.sleep(wait, this.#closed.signal);
    let failure: unknown;
    for (const candidate of servers.servers) {
      const server = new URL(candidate);
      try {
        const connection = server.protocol === 'https:' ? await this.#negotiate(server) : new Http1Connection(server, tls);
        this.#backoff.reset();
        this.#connections.push(connection);
        return connection;
      } catch (error) {
        this.#closed.signal.throwIfAborted();
        servers.markFailed(candidate);
        failure = error;
      }
    }
    this.#notBefore = clock.monotonic() + this.#backoff.next();
    throw failure;
  }

  async #negotiate(server: URL): Promise<HttpConnection> {
    const { servers, tls, clock } = this.#options;
    const { dialMs } = servers.timing;
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
      const abandon = (error: Error) => {
        timer.cancel();
        dialing.destroy();
        reject(error);
      };
      const fail = (cause: Error) => abandon(new TransportError('ConnectFailed', goErrorText(cause), { cause }));
      const timer = clock.after(dialMs, () =>
        abandon(new TransportError('ConnectFailed', `no connection to ${server.host} within ${dialMs / 1000} s`)),
      );
      const closed = () => abandon(this.#closed.signal.reason as Error);
      this.#closed.signal.addEventListener('abort', closed, { once: true });
      dialing.once('error', fail);
      dialing.once('secureConnect', () => {
        timer.cancel();
        dialing.off('error', fail);
        this.#closed.signal.removeEventListener('abort', closed);
        resolve(dialing);
      });
    });
    const onLost = () => servers.markFailed(server.href.replace(/\/+$/, ''));
    if (socket.alpnProtocol === 'h2') return new Http2Connection(server.origin, { socket, clock, timing: () => servers.timing, onLost });
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
