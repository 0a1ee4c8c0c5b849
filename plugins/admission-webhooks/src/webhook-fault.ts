/** `call`: nobody answered. `response`: somebody did, and not as agreed. */
export type WebhookFaultCode = 'call' | 'response';

/** Why a webhook has not said anything. */
export class WebhookFault extends Error {
  override readonly name = 'WebhookFault';
  readonly code: WebhookFaultCode;
  constructor(code: WebhookFaultCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
