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
  /** Read once. Throws `TransportError` if the connection breaks before the end. An unread body applies back pressure to the server. */
  readonly body: AsyncIterable<Buffer>;
  /** Discards the rest of the body. */
  cancel(): void;
}

/** One connection, or several of one protocol. */
export interface HttpConnection {
  /** True if it accepts further requests. */
  readonly isUsable: boolean;
  /** True if it has ended, with all its requests. */
  readonly isClosed: boolean;
  /** Resolves with status and headers. @throws TransportError, or the signal's reason */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Aborts all requests. */
  destroy(): void;
}

/** `Refused`: the server has not processed the request. `Lost`: it may have. */
export type TransportErrorCode = 'ConnectFailed' | 'Refused' | 'Lost' | 'Timeout' | 'TooLarge' | 'Malformed' | 'Closed';

/** A failure of the connection to the server. Callers of `Client` get it as `cause` of a `ServiceUnavailable`. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly code: TransportErrorCode;
  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
