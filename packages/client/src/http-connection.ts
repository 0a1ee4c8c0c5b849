import type { IncomingHttpHeaders } from 'node:http';

export interface HttpRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Read once. Throws `TransportError` when the connection breaks before the end. Not reading holds the server back. */
  readonly body: AsyncIterable<Buffer>;
  /** Gives the rest of the body up. */
  cancel(): void;
}

/** Requests over one connection, or over several of one protocol. */
export interface HttpConnection {
  /** Takes further requests now. */
  readonly usable: boolean;
  /** Has ended, with everything that was under way. */
  readonly gone: boolean;
  /** Resolves with the head of the response. @throws TransportError, or the signal's reason */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Ends what is under way. */
  destroy(): void;
}

/** `Refused`: the server has not seen the request, or says that it has done nothing about it. `Lost`: it may have. */
export type TransportErrorCode = 'ConnectFailed' | 'Refused' | 'Lost' | 'Timeout' | 'TooLarge' | 'Malformed' | 'Closed';

/** The way to the server failed. Clients meet it as the `cause` of a `ServiceUnavailable`. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly code: TransportErrorCode;
  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
