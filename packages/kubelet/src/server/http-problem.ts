/** A request that cannot be answered, with the status code that says so. */
export class HttpProblem extends Error {
  override readonly name = 'HttpProblem';
  readonly code: number;
  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
