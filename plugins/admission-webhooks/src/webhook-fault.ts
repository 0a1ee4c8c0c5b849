/**
 * `call`: nobody answered what is an answer. `response`: somebody did, and not as agreed. `patch`: the answer's patch cannot be applied, which no
 * `failurePolicy` ignores.
 */
export type WebhookFaultCode = 'call' | 'response' | 'patch';

/** Why a webhook has not said anything. */
export class WebhookFault extends Error {
  override readonly name = 'WebhookFault';
  readonly code: WebhookFaultCode;
  constructor(code: WebhookFaultCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
