import { X509Certificate } from 'node:crypto';
import { atTime } from '../at-time.ts';
import type { Clock, Timer } from '../clock.ts';

/** A certificate and its private key, PEM. */
export interface CertificatePair {
  readonly certificate: string;
  readonly key: string;
}

export interface RenewedCertificateOptions {
  /** Returns a certificate of which more than a fifth of its lifetime remains. */
  readonly issue: () => Promise<CertificatePair>;
  /** Called with each later certificate. */
  readonly onRenew: (pair: CertificatePair) => void | Promise<void>;
  /** Called if a certificate cannot be issued or used; it is tried again after a minute. */
  readonly onFailure: (error: unknown) => void;
  readonly clock: Clock;
}

/** The delay after a failed renewal, and the minimum time until the next renewal, in milliseconds. */
const retryMs = 60_000;
/** The part of the lifetime after which a certificate is renewed. */
const renewalPart = 0.8;

/** A certificate that is renewed when a fifth of its lifetime is left, until `stop`. */
export class RenewedCertificate {
  readonly #options: RenewedCertificateOptions;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: RenewedCertificateOptions) {
    this.#options = options;
  }

  /** Returns the first certificate and key. @throws the error of `issue` */
  async start(): Promise<CertificatePair> {
    const pair = await this.#options.issue();
    this.#schedule(dueAt(pair));
    return pair;
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #schedule(time: number): void {
    if (this.#stopped) return;
    const { clock } = this.#options;
    this.#timer = atTime(clock, Math.max(clock.now() + retryMs, time), () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const { issue, onRenew, onFailure, clock } = this.#options;
    try {
      const pair = await issue();
      if (this.#stopped) return;
      await onRenew(pair);
      this.#schedule(dueAt(pair));
    } catch (error) {
      onFailure(error);
      this.#schedule(clock.now());
    }
  }
}

/** Returns when to renew a certificate, in milliseconds since the Unix epoch. */
function dueAt({ certificate }: CertificatePair): number {
  const { validFrom, validTo } = new X509Certificate(certificate);
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  return from + (to - from) * renewalPart;
}
