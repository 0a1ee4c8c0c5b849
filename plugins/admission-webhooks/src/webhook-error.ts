/**
 * The cause of a WebhookError. `call`: the webhook could not be called. `response`: the response is invalid. `patch`: the JSON patch cannot be
 * applied; no failurePolicy ignores this error.
 */
export type WebhookErrorCode = 'call' | 'response' | 'patch';

/** The error of a webhook that returned no valid decision. */
export class WebhookError extends Error {
  override readonly name = 'WebhookFault';
  readonly code: WebhookErrorCode;
  constructor(code: WebhookErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
