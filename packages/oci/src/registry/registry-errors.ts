import type { Clock } from '@oarlock/primitives/clock';
import { OciError } from '../oci-error.ts';

const maxRetryAfterMs = 60_000;

/** A registry that answers 429 or 5xx. */
export class RegistryBusyError extends OciError {
  readonly retryAfterMs: number;
  constructor(message: string, retryAfter: number) {
    super('Unavailable', message);
    this.retryAfterMs = retryAfter;
  }
}
/** The last error after several attempts. */
export class RetriedError extends OciError {
  constructor(cause: OciError) {
    super(cause.code, cause.message, { cause });
  }
}

/** Returns true if nothing listens, so that a retry within seconds is useless. */
export const hasNoListener = ({ cause }: OciError): boolean =>
  ['ECONNREFUSED', 'ENOTFOUND'].includes((cause as NodeJS.ErrnoException | undefined)?.code ?? '');

/** Returns the delay of a Retry-After header, at most a minute. */
export function retryAfterMs(header: string | undefined, clock: Clock): number {
  if (header === undefined) return 0;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - clock.now();
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), maxRetryAfterMs);
}

/** Returns the first message of the errors in a response of a registry. */
export function registryMessage(text: string): string {
  try {
    const { errors } = JSON.parse(text) as { readonly errors?: readonly { readonly code?: unknown; readonly message?: unknown }[] };
    const first = errors?.[0];
    return first === undefined ? '' : `: ${String(first.code).slice(0, 100)}: ${String(first.message).slice(0, 300)}`;
  } catch {
    return '';
  }
}
