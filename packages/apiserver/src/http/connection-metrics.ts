import { Counter, Gauge, type Registry } from 'prom-client';
import type { ClientClass } from './client-class.ts';

/** The reason why the server closed a connection, or one HTTP/2 stream, before the client did. */
export type CloseReason =
  | 'handshake-timeout'
  | 'preface-timeout'
  | 'header-timeout'
  | 'body-timeout'
  | 'response-timeout'
  | 'stalled-stream'
  | 'idle'
  | 'close-timeout'
  | 'control-frame-flood'
  | 'handshake-limit'
  | 'source-limit'
  | 'total-limit';

/** The metrics of open connections, and of connections that the server closed. */
export class ConnectionMetrics {
  readonly #closed: Counter<'reason'>;
  readonly #handshakeErrors: Counter;

  /** Registers the metrics. `count` returns the number of open connections of a class. */
  constructor(registry: Registry, count: (clientClass: ClientClass) => number) {
    this.#closed = new Counter({
      name: 'apiserver_connections_closed_total',
      help: 'Connections and HTTP/2 streams that the server closed because of a limit, by reason.',
      labelNames: ['reason'],
      registers: [registry],
    });
    this.#handshakeErrors = new Counter({
      name: 'apiserver_tls_handshake_errors_total',
      help: "Number of requests dropped with 'TLS handshake error from' error",
      registers: [registry],
    });
    registry.registerMetric(
      new Gauge({
        name: 'apiserver_connections',
        help: 'Open TCP connections by the class of their client.',
        labelNames: ['class'],
        registers: [],
        collect() {
          for (const clientClass of ['unauthenticated', 'authenticated', 'system'] as const)
            this.set({ class: clientClass }, count(clientClass));
        },
      }),
    );
  }

  observeClosed(reason: CloseReason): void {
    this.#closed.inc({ reason });
  }

  countHandshakeError(): void {
    this.#handshakeErrors.inc();
  }
}
