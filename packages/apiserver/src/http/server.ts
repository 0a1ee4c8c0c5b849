import { once } from 'node:events';
import { ServerResponse, type IncomingMessage } from 'node:http';
import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/primitives/clock';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import type { Logger } from '@oarlock/primitives/logger';
import { destroyHttp2, setReceiveWindow } from '@oarlock/primitives/net/http2';
import { serverTls } from '@oarlock/primitives/net/tls-policy';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Workers } from '@oarlock/spi/workers';
import type { Registry } from 'prom-client';
import { ClientCertificateVerifier, handshakeAuthorities, type ClientAuthorities } from './client-certificates.ts';
import type { ConnectionLimits } from './connection-limits.ts';
import { ConnectionMetrics } from './connection-metrics.ts';
import type { Exchange, UpgradeRequest } from './exchange.ts';
import type { Connection } from './internal/connection.ts';
import { ConnectionTable } from './internal/connection-table.ts';
import { Http1Exchange } from './internal/http1-exchange.ts';
import { headFault, maxHeaderPairs } from './internal/request-head.ts';
import { Http2Exchange, type Http2Headers } from './internal/http2-exchange.ts';
import { RequestBodyMemory } from './request-body-memory.ts';

export interface HttpServerOptions {
  readonly pair: KeyPair;
  readonly clientAuthorities: ClientAuthorities;
  /** The maximum number of concurrent requests on one connection. */
  readonly maxStreamsPerConnection: number;
  readonly limits: ConnectionLimits;
  readonly clock: Clock;
  readonly log: Logger;
  readonly registry: Registry;
  /** Limits the total size of the request bodies of all connections. */
  readonly bodies?: RequestBodyMemory;
  /** Handles a request. Neither throws nor rejects. */
  handle(exchange: Exchange, upgrade?: UpgradeRequest): void | Promise<void>;
}

/**
 * The maximum size of a request head in bytes. kube-apiserver accepts 1 MiB (net/http: DefaultMaxHeaderBytes); tokens and long selectors need less.
 */
const maxHeaderBytes = 96 * 1024;
/** The idle time before the first TCP keepalive probe in milliseconds, which detects clients that have vanished (Go: defaultTCPKeepAliveIdle). */
const keepAliveDelayMs = 15_000;
/** The time in milliseconds that `close` waits for clients to receive responses. */
const closeLingerMs = 1_000;
/** The approximate time from a new connection to its first request in milliseconds, during which synchronous work yields more often. */
const greetingMs = 50;
/** The HTTP/2 flow-control windows of streams and connections, in bytes. */
const streamWindow = 256 * 1024;
const sessionWindow = 4 * 1024 * 1024;
/** The maximum memory of one HTTP/2 session in MB, including responses that the client has not received. */
const maxSessionMemory = 64;

/** An HTTPS server for HTTP/2, HTTP/1.1 and upgraded connections on one port. */
export class HttpServer {
  readonly #server: Http2SecureServer;
  readonly #options: HttpServerOptions;
  readonly #certificates: ClientCertificateVerifier;
  readonly #connections: ConnectionTable;
  /** The connection of each TLS socket (HTTP/1.1) and of each session (HTTP/2). */
  readonly #connectionOf = new WeakMap<object, Connection>();
  readonly #bodies: RequestBodyMemory;
  #workers: Pick<Workers, 'stopAccepting'> | undefined;
  #stopping = false;

  constructor(options: HttpServerOptions) {
    const { limits, clock, log, registry } = options;
    this.#options = options;
    this.#bodies = options.bodies ?? new RequestBodyMemory();
    this.#certificates = new ClientCertificateVerifier(options.clientAuthorities);
    this.#connections = new ConnectionTable({
      limits,
      clock,
      onClose: (reason) => {
        metrics.observeClosed(reason);
        log.debug({ reason }, 'the server closed a connection or a stream');
      },
    });
    const metrics = new ConnectionMetrics(registry, (clientClass) => this.#connections.count(clientClass));
    this.#server = newServer(options);
    this.#listenForConnections(metrics);
    this.#listenForRequests();
  }

  /** Starts to listen, or to receive the connections of a port that several processes share. Rejects if the address is not available. */
  async listen(address: string, port: number, workers?: Pick<Workers, 'listen' | 'stopAccepting'>): Promise<AddressInfo> {
    if (workers !== undefined) {
      this.#workers = workers;
      return workers.listen(address, port, (socket) => {
        if (this.#stopping) socket.destroy();
        else this.#server.emit('connection', configured(socket));
      });
    }
    this.#server.listen({ host: address, port, backlog: 1024 });
    await once(this.#server, 'listening');
    this.#server.on('error', (error) => {
      this.#options.log.error({ err: error }, 'the server failed');
    });
    return this.#server.address() as AddressInfo;
  }

  /** Replaces the serving certificate for new connections. */
  setCertificate({ certificate, key }: KeyPair): void {
    this.#server.setSecureContext({
      cert: certificate,
      key,
      ca: handshakeAuthorities(this.#options.clientAuthorities),
      ...serverTls,
    });
  }

  /** Stops accepting connections and releases the port. Requests in progress continue; HTTP/2 clients receive GOAWAY. */
  stopAccepting(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    if (this.#workers === undefined) this.#server.close();
    else this.#workers.stopAccepting();
    for (const connection of this.#connections) connection.drain();
  }

  /** Closes all connections. Clients have `closeLingerMs` to receive their responses. Resolves when every connection is closed. */
  async close(): Promise<void> {
    this.stopAccepting();
    const connections = [...this.#connections];
    const closed = Promise.all(
      connections.map(
        ({ socket }) =>
          new Promise<void>((resolve) => {
            socket.once('close', () => {
              resolve();
            });
          }),
      ),
    );
    const timer = this.#options.clock.after(closeLingerMs, () => {
      for (const connection of connections) connection.destroy();
    });
    await closed;
    timer.cancel();
  }

  #listenForConnections(metrics: ConnectionMetrics): void {
    const server = this.#server;
    const { log, clock } = this.#options;
    server.on('connection', (socket: Socket) => {
      clock.after(greetingMs, eventLoop.addWaiter());
      this.#connections.add(socket);
    });
    // before Node's listener, which emits `session`
    server.prependListener('secureConnection', (socket: TLSSocket) => {
      const connection = this.#connections.find(socket);
      if (connection === undefined) {
        socket.destroy();
        return;
      }
      this.#connections.endHandshake(connection);
      connection.secure(socket, this.#certificates.verify(socket));
      this.#connectionOf.set(socket, connection);
    });
    server.on('session', (session) => {
      const connection = this.#connections.find(session.socket);
      if (connection === undefined) {
        destroyHttp2(session);
        return;
      }
      this.#connectionOf.set(session, connection);
      setReceiveWindow(session, sessionWindow);
      connection.startSession(session);
      if (this.#stopping) session.close();
    });
    server.on('sessionError', (error) => {
      log.debug({ err: error }, 'an HTTP/2 session failed');
    });
    server.on('tlsClientError', (error) => {
      metrics.countHandshakeError();
      log.debug({ err: error }, 'a TLS handshake failed');
    });
    server.on('clientError', (error: Error, socket: Duplex) => {
      rejectConnection(error, socket);
    });
  }

  #listenForRequests(): void {
    const server = this.#server;
    server.on('request', (request: unknown, response: unknown) => {
      this.#serveHttp1(request as IncomingMessage, response as ServerResponse);
    });
    // the listener for `request` makes Node serve HTTP/2 through its compatibility layer, which costs more than the streams
    server.removeAllListeners('stream');
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, ...[, rawHeaders]: Http2HeaderLines) => {
      this.#serveHttp2(stream, { headers, rawHeaders });
    });
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#serveUpgrade(request, socket, head);
    });
  }

  #serveHttp1(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connectionOf.get(request.socket);
    if (connection === undefined || connection.requestCount >= this.#options.maxStreamsPerConnection) {
      request.socket.destroy();
      return;
    }
    if (this.#stopping) response.shouldKeepAlive = false;
    const exchange = new Http1Exchange(request, response, connection, this.#bodies);
    connection.beginRequest(exchange);
    response.once('close', () => {
      connection.endRequest(exchange);
      if (this.#stopping) request.socket.destroySoon();
    });
    response.on('error', () => {
      response.destroy();
    });
    const fault = headFault(request);
    if (fault !== undefined) {
      response.shouldKeepAlive = false;
      exchange.send(fault, '');
    } else void this.#options.handle(exchange);
  }

  #serveHttp2(stream: ServerHttp2Stream, headers: Http2Headers): void {
    const { session } = stream;
    stream.on('error', () => {
      stream.destroy();
    });
    const connection = session && this.#connectionOf.get(session as Http2Session);
    if (connection === undefined || connection.isDestroyed) return;
    if (stream.destroyed) {
      connection.countReset();
      return;
    }
    const exchange = new Http2Exchange(stream, headers, connection, this.#bodies);
    connection.beginRequest(exchange);
    stream.once('close', () => {
      connection.endRequest(exchange);
      if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) connection.countReset();
    });
    void this.#options.handle(exchange);
  }

  /** Handles a request to upgrade. Until the handler calls `begin`, it may send an ordinary response, after which the connection ends. */
  #serveUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => {
      socket.destroy();
    });
    const connection = this.#connectionOf.get(socket);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    if (connection === undefined || !takesSocket(response, socket)) {
      socket.destroy();
      return;
    }
    socket.setTimeout(0);
    const exchange = new Http1Exchange(request, response, connection, this.#bodies);
    connection.beginRequest(exchange);
    response.once('finish', () => {
      connection.endRequest(exchange);
      socket.end();
    });
    const begin = (code: number) => {
      response.detachSocket(socket);
      exchange.handOver(code);
      connection.endRequest(exchange);
      connection.upgrade();
    };
    const fault = headFault(request);
    if (fault !== undefined) exchange.send(fault, '');
    else void this.#options.handle(exchange, { socket, head, begin });
  }
}

/** Assigns a socket to a response. Returns false if the response to an earlier request, which may be Node's own, is still in progress on it (pipelining). */
function takesSocket(response: ServerResponse, socket: Socket): boolean {
  try {
    response.assignSocket(socket);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_HTTP_SOCKET_ASSIGNED') throw error;
    return false;
  }
}

function newServer({ pair, clientAuthorities, maxStreamsPerConnection }: HttpServerOptions): Http2SecureServer {
  const authorities = handshakeAuthorities(clientAuthorities);
  const server = createSecureServer({
    allowHTTP1: true,
    // without authorities no certificate would be valid, and browsers would prompt their users for one
    requestCert: authorities.length > 0,
    rejectUnauthorized: false,
    ...serverTls,
    cert: pair.certificate,
    key: pair.key,
    ca: authorities,
    maxHeaderListPairs: maxHeaderPairs,
    maxSessionMemory,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveDelayMs,
    settings: {
      maxConcurrentStreams: maxStreamsPerConnection,
      initialWindowSize: streamWindow,
      maxHeaderListSize: maxHeaderBytes,
    },
  });
  // Node reads these for HTTP/1.1 from the server object. The connection table has the deadlines, and `headFault`
  // counts headers, because Node drops those beyond `maxHeadersCount` silently.
  return Object.assign(server, {
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
    maxHeadersCount: 0,
    maxHeaderSize: maxHeaderBytes,
  });
}

/** Applies the socket options of `newServer` to a socket that another process has accepted. */
const configured = (socket: Socket): Socket => socket.setNoDelay(true).setKeepAlive(true, keepAliveDelayMs);

/** The further arguments of the event `stream`. */
type Http2HeaderLines = readonly [flags: number, rawHeaders: readonly string[]];

const errorResponse = (status: string): string => `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
const errorStatuses: Readonly<Record<string, string>> = { HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large' };

/** Responds to a request that cannot be parsed, if the socket is writable, and closes the connection. */
function rejectConnection(error: Error, socket: Duplex): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(errorResponse(errorStatuses[(error as NodeJS.ErrnoException).code ?? ''] ?? '400 Bad Request'));
}
