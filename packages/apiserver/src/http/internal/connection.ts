import type { X509Certificate } from 'node:crypto';
import type { Http2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/primitives/clock';
import { destroyHttp2 } from '@oarlock/primitives/net/http2';
import type { VerifiedCertificate, VerifiedCertificates } from '../client-certificates.ts';
import { isHigherClass, type ClientClass } from '../client-class.ts';
import type { ClientConnection } from '../client-connection.ts';
import type { ConnectionLimits } from '../connection-limits.ts';
import type { CloseReason } from '../connection-metrics.ts';
import type { ClientPhase, ClientProgress, MonitoredExchange } from './client-progress.ts';

/** The stage of a connection. `upgraded`: the connection does not use HTTP any more, and no deadline applies. */
type Stage = 'handshake' | 'http1' | 'http2' | 'upgraded' | 'closing';

export interface ConnectionOptions {
  readonly socket: Socket;
  /** The key of the connection in its ConnectionTable. */
  readonly key: string;
  readonly source: string;
  readonly limits: ConnectionLimits;
  readonly clock: Clock;
  /** Called before the class of the connection changes. */
  onRaiseClass(connection: Connection, clientClass: ClientClass): void;
  onClose(reason: CloseReason): void;
}

const timeouts: Readonly<Record<ClientPhase, { readonly reason: CloseReason; readonly limit: keyof ConnectionLimits }>> = {
  body: { reason: 'body-timeout', limit: 'bodyTimeoutMs' },
  response: { reason: 'response-timeout', limit: 'responseTimeoutMs' },
  stream: { reason: 'stalled-stream', limit: 'stalledStreamTimeoutMs' },
};

interface ProgressSample extends ClientProgress {
  readonly at: number;
}

/**
 * A TCP connection and its deadlines. `check` compares the state with that of the previous check, so that a request needs neither a timer nor a
 * clock. A deadline is exceeded by at most one check interval.
 */
export class Connection implements ClientConnection {
  readonly socket: Socket;
  readonly key: string;
  readonly source: string;
  readonly remoteAddress: string | undefined;
  readonly sourceAddress: string | undefined;
  readonly cacheKey = Object.freeze({});
  readonly #options: ConnectionOptions;
  /** The requests in progress, each with the progress that the last check recorded. */
  readonly #requests = new Map<MonitoredExchange, ProgressSample | undefined>();
  #clientClass: ClientClass = 'unauthenticated';
  #verified: VerifiedCertificates = { cluster: undefined, frontProxy: undefined };
  #stage: Stage = 'handshake';
  #isDestroyed = false;
  #tls: TLSSocket | undefined;
  #session: Http2Session | undefined;
  /** The time at which the stage began or the last request ended, in milliseconds of the monotonic clock. */
  #since: number;
  #hasPreface = false;
  /** The number of requests that have begun so far; `#checkedRequests` is the number at the last check. */
  #begunRequests = 0;
  #checkedRequests = 0;
  /** The number of received bytes when the last request ended. Later bytes belong to the next request head. */
  #bytesBeforeHead = 0;
  #isReceivingHead = false;
  #controlFrames = 0;
  #checkedAt: number;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.socket = options.socket;
    this.key = options.key;
    this.source = options.source;
    this.remoteAddress = options.socket.remoteAddress;
    this.sourceAddress = this.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
    this.#since = this.#checkedAt = options.clock.monotonic();
  }

  get clientClass(): ClientClass {
    return this.#clientClass;
  }
  /** Number of requests in progress. */
  get requestCount(): number {
    return this.#requests.size;
  }
  /** True after `destroy`. A session processes the bytes that it has already received before it closes; their requests are not served. */
  get isDestroyed(): boolean {
    return this.#isDestroyed;
  }
  /** True while a request is in progress or the connection is upgraded. */
  get isBusy(): boolean {
    return this.#requests.size > 0 || this.#stage === 'upgraded';
  }

  certificate(): X509Certificate | undefined {
    return this.#whileValid(this.#verified.cluster);
  }
  frontProxyCertificate(): X509Certificate | undefined {
    return this.#whileValid(this.#verified.frontProxy);
  }
  #whileValid(verified: VerifiedCertificate | undefined): X509Certificate | undefined {
    if (verified === undefined) return undefined;
    const now = this.#options.clock.now();
    return now >= verified.notBefore && now <= verified.notAfter ? verified.certificate : undefined;
  }

  raiseClass(clientClass: ClientClass): void {
    if (!isHigherClass(clientClass, this.#clientClass)) return;
    this.#options.onRaiseClass(this, clientClass);
    this.#clientClass = clientClass;
  }

  /** Ends the stage `handshake` after the TLS handshake has completed. */
  secure(tls: TLSSocket, verified: VerifiedCertificates): void {
    this.#tls = tls;
    this.#verified = verified;
    this.#enter('http1');
    tls.once('close', () => {
      for (const exchange of this.#requests.keys()) exchange.disconnect();
    });
    if (this.certificate() !== undefined || this.frontProxyCertificate() !== undefined) this.raiseClass('authenticated');
  }

  startSession(session: Http2Session): void {
    this.#session = session;
    this.#enter('http2');
    session.on('remoteSettings', () => {
      this.#hasPreface = true;
      this.#countControlFrame();
    });
    session.on('ping', () => this.#countControlFrame());
  }

  /** Ends HTTP on this connection. The upgrade handler now owns the socket. */
  upgrade(): void {
    this.#enter('upgraded');
  }

  beginRequest(exchange: MonitoredExchange): void {
    this.#begunRequests += 1;
    this.#requests.set(exchange, undefined);
  }

  endRequest(exchange: MonitoredExchange): void {
    this.#requests.delete(exchange);
    if (this.#stage === 'http1' && this.#tls !== undefined) this.#bytesBeforeHead = this.#tls.bytesRead;
  }

  /** Counts an HTTP/2 stream that ended with an error: because the client sent RST_STREAM or an invalid frame. */
  countReset(): void {
    this.#countControlFrame();
  }

  /** Rejects new requests, and closes the connection when the requests in progress have ended. */
  drain(): void {
    this.#session?.close();
  }

  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    const socket = this.#tls ?? this.socket;
    if (this.#session === undefined) {
      socket.destroy();
      return;
    }
    destroyHttp2(this.#session);
    // Node.js keeps the socket of a destroyed session until the client has received all data, which a client that is gone never does
    const { clock, limits } = this.#options;
    const timer = clock.after(limits.closeTimeoutMs, () => socket.destroy());
    socket.once('close', () => timer.cancel());
  }

  /** Closes the connection because it exceeded a limit. Has no effect after `destroy`, which may take a turn of the event loop. */
  closeFor(reason: CloseReason): void {
    if (this.#isDestroyed) return;
    this.#options.onClose(reason);
    this.destroy();
  }

  /** Closes the connection, or resets its requests, if a deadline has passed. */
  check(now: number): void {
    if (this.#isDestroyed) return;
    const { limits } = this.#options;
    this.#refillControlFrames(now);
    const age = now - this.#since;
    switch (this.#stage) {
      case 'handshake':
        if (age >= limits.handshakeTimeoutMs) this.closeFor('handshake-timeout');
        break;
      case 'http1':
      case 'http2':
        if (this.#requests.size > 0) this.#checkRequests(now);
        else if (this.#begunRequests !== this.#checkedRequests) this.#resetIdle(now);
        else if (this.#stage === 'http1') this.#checkHttp1(now);
        else if (!this.#hasPreface && age >= limits.prefaceTimeoutMs) this.closeFor('preface-timeout');
        else if (age >= limits.idleTimeoutMs) this.#closeIdle();
        break;
      case 'upgraded':
        // the handler has ended the stream, but the client does not receive the rest or does not close its side
        if (this.#tls?.writableEnded === true) this.#enter('closing');
        break;
      case 'closing':
        if (this.#requests.size > 0) this.#checkRequests(now);
        else if (age >= (this.#tls?.writableLength === 0 ? limits.closeTimeoutMs : limits.stalledStreamTimeoutMs))
          this.closeFor('close-timeout');
    }
  }

  #checkHttp1(now: number): void {
    const { headerTimeoutMs, idleTimeoutMs } = this.#options.limits;
    const tls = this.#tls as TLSSocket;
    if (tls.writableEnded || tls.readableEnded) {
      this.#enter('closing');
      return;
    }
    if (!this.#isReceivingHead && tls.bytesRead !== this.#bytesBeforeHead) {
      this.#isReceivingHead = true;
      // the deadline of the first head begins with the handshake
      if (this.#begunRequests > 0) this.#since = now;
    }
    const age = now - this.#since;
    if (this.#isReceivingHead || this.#begunRequests === 0) {
      if (age < headerTimeoutMs) return;
      this.#options.onClose('header-timeout');
      if (this.#isReceivingHead) tls.write(requestTimeoutResponse);
      tls.end();
      this.#enter('closing');
    } else if (age >= idleTimeoutMs) this.#closeIdle();
  }

  #checkRequests(now: number): void {
    const { limits, onClose } = this.#options;
    for (const [exchange, sample] of this.#requests) {
      const progress = exchange.clientProgress();
      if (progress === undefined) {
        if (sample !== undefined) this.#requests.set(exchange, undefined);
        continue;
      }
      const { phase, count } = progress;
      if (sample === undefined || sample.phase !== phase || sample.count !== count) {
        this.#requests.set(exchange, { phase, count, at: now });
        continue;
      }
      const { reason, limit } = timeouts[phase];
      if (now - sample.at < limits[limit]) continue;
      this.#requests.set(exchange, undefined);
      onClose(reason);
      exchange.timeOut(phase);
    }
  }

  /** Restarts the idle deadline, because a request has begun and ended since the last check. */
  #resetIdle(now: number): void {
    this.#checkedRequests = this.#begunRequests;
    this.#isReceivingHead = false;
    this.#since = now;
  }

  #closeIdle(): void {
    this.#options.onClose('idle');
    if (this.#session === undefined) this.#tls?.end();
    else this.#session.close();
    this.#enter('closing');
  }

  #enter(stage: Stage): void {
    this.#stage = stage;
    this.#since = this.#options.clock.monotonic();
  }

  #countControlFrame(): void {
    this.#controlFrames += 1;
    if (this.#controlFrames === this.#options.limits.controlFrameBurst) this.closeFor('control-frame-flood');
  }

  #refillControlFrames(now: number): void {
    if (this.#controlFrames > 0) {
      const refill = Math.floor(((now - this.#checkedAt) * this.#options.limits.controlFramesPerSecond) / 1000);
      if (refill === 0) return;
      this.#controlFrames = Math.max(0, this.#controlFrames - refill);
    }
    this.#checkedAt = now;
  }
}

const requestTimeoutResponse = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';
