import { once } from 'node:events';
import { ServerResponse, type IncomingMessage } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { eventLoop } from '@oarlock/primitives/event-loop';
import type { Logger } from '@oarlock/primitives/logger';
import { serverTls } from '@oarlock/primitives/tls-policy';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Exchange, UpgradeRequest } from './exchange.ts';
import { Http1Exchange } from './internal/http1-exchange.ts';
import { Http2Exchange } from './internal/http2-exchange.ts';
import { ClientCertificateVerifier, type ClientConnection } from './client-certificates.ts';

export interface HttpServerOptions {
  readonly pair: KeyPair;
  readonly caBundle: string;
  readonly maxStreamsPerConnection: number;
  readonly clock: Clock;
  readonly log: Logger;
  handle(exchange: Exchange, upgrade?: UpgradeRequest): Promise<void>;
}

/** Heads larger than that are refused: tokens and long selectors fit. */
const maxHeaderBytes = 96 * 1024;
const maxHeaderPairs = 256;
const headersTimeoutMs = 30_000;
/** How long a connection may be without a request: `IdleTimeout` of Kubernetes' API server. Frames that are no request do not extend it. */
const idleTimeoutMs = 90_000;
/** Time between the end of an idle session and the end of its connection, for clients that do not answer GOAWAY. */
const goneAfterMs = 1_000;
const handshakeTimeoutMs = 20_000;
const closeLingerMs = 1_000;
/** About as long as a handshake takes, and the first request to come. */
const greetingMs = 50;
const streamWindow = 256 * 1024;
const sessionWindow = 4 * 1024 * 1024;
/** What one session may hold of answers that its client does not read, in MB. */
const maxSessionMemory = 64;

/** HTTP/2, HTTP/1.1 and upgrades on one TLS port. */
export class HttpServer {
  readonly #server: Http2SecureServer;
  readonly #options: HttpServerOptions;
  readonly #certificates: ClientCertificateVerifier;
  readonly #connections = new WeakMap<object, ClientConnection>();
  readonly #sockets = new Set<Socket>();
  /** With how many streams each has open. */
  readonly #sessions = new Map<Http2Session, number>();
  readonly #idle = new WeakMap<Http2Session, Timer>();
  #stopping = false;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#certificates = new ClientCertificateVerifier(options.caBundle, options.clock);
    this.#server = createSecureServer({
      allowHTTP1: true,
      requestCert: true,
      rejectUnauthorized: false,
      ...serverTls,
      cert: options.pair.certificate,
      key: options.pair.key,
      ca: options.caBundle,
      handshakeTimeout: handshakeTimeoutMs,
      maxHeaderListPairs: maxHeaderPairs,
      maxSessionMemory,
      noDelay: true,
      settings: {
        maxConcurrentStreams: options.maxStreamsPerConnection,
        initialWindowSize: streamWindow,
        maxHeaderListSize: maxHeaderBytes,
      },
    });
    // node reads these for HTTP/1.1 from the server itself
    Object.assign(this.#server, { headersTimeout: headersTimeoutMs, keepAliveTimeout: idleTimeoutMs, maxHeaderSize: maxHeaderBytes });
    this.#listenForRequests();
  }

  /** Rejects when the address cannot be had. */
  async listen(address: string, port: number): Promise<AddressInfo> {
    this.#server.listen({ host: address, port, backlog: 1024 });
    await once(this.#server, 'listening');
    this.#server.on('error', (error) => {
      this.#options.log.error({ err: error }, 'the server failed');
    });
    return this.#server.address() as AddressInfo;
  }

  /** From now on new connections are shown this certificate. */
  setCertificate({ certificate, key }: KeyPair): void {
    this.#server.setSecureContext({ cert: certificate, key, ca: this.#options.caBundle, ...serverTls });
  }

  /** Takes no further connections and gives the port back; what is connected may finish, and is told not to come again. */
  stopAccepting(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#server.close();
    for (const session of this.#sessions.keys()) session.close();
  }

  /** Resolves when every connection is closed: those whose answers are on their way get a moment to take them, the rest is cut off. */
  async close(): Promise<void> {
    this.stopAccepting();
    const gone = Promise.all(
      [...this.#sockets].map(
        (socket) =>
          new Promise<void>((resolve) => {
            socket.once('close', () => {
              resolve();
            });
          }),
      ),
    );
    const cut = this.#options.clock.after(closeLingerMs, () => {
      for (const session of this.#sessions.keys()) session.destroy();
      for (const socket of this.#sockets) socket.destroy();
    });
    await gone;
    cut.cancel();
  }

  #listenForRequests(): void {
    const server = this.#server;
    const { log, clock } = this.#options;
    server.on('connection', (socket: Socket) => {
      clock.after(greetingMs, eventLoop.addWaiter());
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
      });
    });
    server.on('session', (session) => {
      this.#sessions.set(session, 0);
      session.setLocalWindowSize(sessionWindow);
      session.once('close', () => {
        this.#sessions.delete(session);
        this.#idle.get(session)?.cancel();
      });
      this.#endWhenIdle(session);
      if (this.#stopping) session.close();
    });
    server.on('request', (request: unknown, response: unknown) => {
      this.#http1(request as IncomingMessage, response as ServerResponse);
    });
    // the listener above has node serve HTTP/2 in the guise of HTTP/1.1, too, which costs more than the streams themselves
    server.removeAllListeners('stream');
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      this.#http2(stream, headers);
    });
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#upgrade(request, socket, head);
    });
    server.on('sessionError', (error) => {
      log.debug({ err: error }, 'an HTTP/2 session failed');
    });
    server.on('tlsClientError', (error) => {
      log.debug({ err: error }, 'a TLS handshake failed');
    });
    server.on('clientError', (error: Error, socket: Duplex) => {
      rejectConnection(error, socket);
    });
  }

  #http1(request: IncomingMessage, response: ServerResponse): void {
    if (this.#stopping) response.shouldKeepAlive = false;
    response.once('finish', () => {
      if (this.#stopping) request.socket.destroySoon();
    });
    response.on('error', () => {
      response.destroy();
    });
    void this.#options.handle(new Http1Exchange(request, response, this.#connection(request.socket, request.socket as TLSSocket)));
  }

  #http2(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { session } = stream;
    stream.on('error', () => {
      stream.destroy();
    });
    if (session === undefined || stream.destroyed) return;
    this.#count(session, 1);
    stream.once('close', () => {
      this.#count(session, -1);
    });
    void this.#options.handle(new Http2Exchange(stream, headers, this.#connection(session, session.socket as TLSSocket)));
  }

  /** Once the upgrade is agreed on the socket is nobody's but the handler's; until then there is an answer as usual, and the last one. */
  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => {
      socket.destroy();
    });
    socket.setTimeout(0);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => {
      socket.end();
    });
    const exchange = new Http1Exchange(request, response, this.#connection(socket, socket as TLSSocket));
    const begin = (code: number) => {
      response.detachSocket(socket);
      exchange.handOver(code);
    };
    void this.#options.handle(exchange, { socket, head, begin });
  }

  #count(session: Http2Session, change: number): void {
    const open = this.#sessions.get(session);
    if (open === undefined) return;
    this.#sessions.set(session, open + change);
    this.#idle.get(session)?.cancel();
    if (open + change === 0) this.#endWhenIdle(session);
  }

  /** PING, SETTINGS and the like are activity to node's own timeout, with which a client would keep a connection for ever. */
  #endWhenIdle(session: Http2Session): void {
    const { clock } = this.#options;
    const timer = clock.after(idleTimeoutMs, () => {
      session.close();
      const cut = clock.after(goneAfterMs, () => {
        if (this.#sessions.get(session) === 0) session.destroy();
      });
      session.once('close', () => cut.cancel());
    });
    this.#idle.set(session, timer);
  }

  #connection(key: object, socket: TLSSocket): ClientConnection {
    let connection = this.#connections.get(key);
    if (connection === undefined) {
      connection = this.#certificates.connection(socket);
      this.#connections.set(key, connection);
    }
    return connection;
  }
}

const errorResponses: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** What cannot be parsed is answered, if it can be, and cut off. */
function rejectConnection(error: Error, socket: Duplex): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(
    `HTTP/1.1 ${errorResponses[(error as NodeJS.ErrnoException).code ?? ''] ?? '400 Bad Request'}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
  );
}
