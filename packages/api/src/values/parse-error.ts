export type ParseErrorCode = 'quantity' | 'label-selector' | 'field-selector' | 'duration' | 'int-or-string' | 'cron';

const brand = Symbol.for('oarlock:ParseError');

/** A text that does not parse. `message` is Kubernetes' message. */
export class ParseError extends Error {
  /** Makes instanceof work across copies of this package, such as that of an external plugin. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'ParseError';
  readonly code: ParseErrorCode;
  constructor(code: ParseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
