import type { ServiceProxy } from '@oarlock/spi/proxy';

export type ProxyErrorCode = 'Unsupported';
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: ProxyErrorCode;
  constructor(code: ProxyErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export class __Class__ implements ServiceProxy {
  apply(): Promise<never> {
    const task = 'forward traffic to the cluster IPs of a ServicePort to one of its endpoints';
    return Promise.reject(new ProxyError('Unsupported', `implement apply in src/proxy.ts: ${task}`));
  }
}
