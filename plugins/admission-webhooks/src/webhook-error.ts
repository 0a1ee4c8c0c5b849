/**
 * `call`: the webhook could not be called. `response`: the response is invalid. `patch`: the patch cannot be applied, which no `failurePolicy`
 * ignores.
 */
export type WebhookErrorCode = 'call' | 'response' | 'patch';

/** Why a webhook returned no decision. */
export class WebhookError extends Error {
  override readonly name = 'WebhookFault';
  readonly code: WebhookErrorCode;
  constructor(code: WebhookErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
