import type { IncomingHttpHeaders } from 'node:http';

export interface HttpRequest {
  readonly method: string;
  /** The path with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /**
   * The response body, which can be read once. Reading throws `TransportError` if the connection breaks before the end. An unread body applies back
   * pressure to the server.
   */
  readonly body: AsyncIterable<Buffer>;
  /** Discards the rest of the body. */
  cancel(): void;
}

/** One connection, or several of one protocol. */
export interface HttpConnection {
  /** True if the connection accepts further requests. */
  readonly isUsable: boolean;
  /** True if the connection and all its requests have ended. */
  readonly isClosed: boolean;
  /** Resolves with status and headers. @throws TransportError, or the signal's reason */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Aborts all requests. */
  destroy(): void;
  /** Applies changed timing to the detection of a silent server; absent if the protocol has no such detection. */
  restartMonitor?(): void;
}

/** The kind of a connection failure. `Refused`: the server has not processed the request. `Lost`: the server may have processed the request. */
export type TransportErrorCode = 'ConnectFailed' | 'Refused' | 'Lost' | 'Timeout' | 'TooLarge' | 'Malformed' | 'Closed';

/** A failure of the connection to the server. Callers of `Client` receive this error as the `cause` of a `ServiceUnavailable`. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly code: TransportErrorCode;
  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
