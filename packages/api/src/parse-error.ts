export type ParseErrorCode = 'quantity' | 'label-selector' | 'field-selector' | 'duration' | 'int-or-string';

/** A text that does not parse. `message` has Kubernetes' wording. */
export class ParseError extends Error {
  override readonly name = 'ParseError';
  readonly code: ParseErrorCode;
  constructor(code: ParseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
