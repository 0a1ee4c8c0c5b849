/** The error of a request that is answered with an HTTP status code. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: number;
  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
