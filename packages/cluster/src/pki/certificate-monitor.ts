import { X509Certificate } from 'node:crypto';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { Counter, Gauge, Registry } from 'prom-client';

/** A certificate that this process uses. */
export interface TrackedCertificate {
  readonly name: string;
  /** PEM; the first certificate counts. */
  readonly certificate: string;
}

export interface CertificateMonitorOptions {
  /** Returns the certificates that are in use now. */
  readonly certificates: () => Promise<readonly TrackedCertificate[]>;
  /** Writes a warning event. */
  readonly warn: (reason: 'CertificateExpiring' | 'CertificateExpired', message: string) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

interface CertificateLife {
  readonly name: string;
  readonly isAuthority: boolean;
  /** Milliseconds since the Unix epoch. */
  readonly validTo: number;
  readonly lifetimeMs: number;
}

const [hourMs, dayMs] = [3_600_000, 86_400_000];
/** A warning leaves time for the three steps of a CA rotation, each with a restart of all servers. */
const authorityWarningMs = 180 * dayMs;
/** Certificates are renewed when at least a fifth of their lifetime is left: less than this part is left only if renewals fail. */
const [warningMs, warningPart] = [30 * dayMs, 0.15];
const [minCheckMs, checkPart] = [10_000, 0.01];

/**
 * Checks the ends of the certificates of this process once per hour, and more often if their lifetimes are short. Reports those that are near their
 * end in the log, with events and in metrics.
 */
export class CertificateMonitor {
  readonly metrics = new Registry();
  readonly #options: CertificateMonitorOptions;
  #lives: readonly CertificateLife[] = [];
  #timer: Timer | undefined;
  #check: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: CertificateMonitorOptions) {
    this.#options = options;
    const ends = () => this.#lives;
    new Gauge({
      name: 'oarlock_certificate_expiration_timestamp_seconds',
      help: 'End of the validity of a certificate that this process uses, in seconds since the Unix epoch.',
      labelNames: ['certificate'],
      registers: [this.metrics],
      collect() {
        this.reset();
        for (const { name, validTo } of ends()) this.set({ certificate: name }, validTo / 1000);
      },
    });
  }

  /** Adds upstream's metrics of the certificates of a kubelet, which are tracked as `kubelet-client` and `kubelet-server`. */
  addKubeletMetrics(renewErrors: () => number): void {
    const secondsLeft = (certificate: string) => {
      const life = this.#lives.find(({ name }) => name === certificate);
      return life === undefined ? Number.POSITIVE_INFINITY : (life.validTo - this.#options.clock.now()) / 1000;
    };
    for (const purpose of ['client', 'server'])
      new Gauge({
        name: `kubelet_certificate_manager_${purpose}_ttl_seconds`,
        help: `Seconds until the ${purpose} certificate of the kubelet expires; negative after its end.`,
        registers: [this.metrics],
        collect() {
          this.set(secondsLeft(`kubelet-${purpose}`));
        },
      });
    new Counter({
      name: 'kubelet_certificate_manager_client_expiration_renew_errors',
      help: 'Counter of certificate renewal errors.',
      registers: [this.metrics],
      collect() {
        this.reset();
        this.inc(renewErrors());
      },
    });
  }

  async start(): Promise<void> {
    this.#check = this.#run();
    await this.#check;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#check;
  }

  async #run(): Promise<void> {
    const { certificates, clock, log } = this.#options;
    try {
      this.#lives = (await certificates()).map(lifeOf);
      for (const life of this.#lives) this.#report(life);
    } catch (error) {
      log.error({ error: errorText(error) }, 'the ends of the certificates could not be checked');
    }
    if (this.#stopped) return;
    const shortest = Math.min(...this.#lives.map(({ lifetimeMs }) => lifetimeMs));
    this.#timer = clock.after(Math.min(hourMs, Math.max(minCheckMs, shortest * checkPart)), () => {
      this.#check = this.#run();
    });
  }

  #report({ name, isAuthority, validTo, lifetimeMs }: CertificateLife): void {
    const { clock, warn, log } = this.#options;
    const leftMs = validTo - clock.now();
    if (leftMs > (isAuthority ? authorityWarningMs : Math.min(warningMs, lifetimeMs * warningPart))) return;
    const end = new Date(validTo).toISOString();
    const when = leftMs <= 0 ? `has expired at ${end}` : `expires at ${end}`;
    const remedy = isAuthority
      ? 'replace the CA in the steps of `oarlock keys`'
      : 'its renewal fails; the log of the process contains the cause';
    const message = `the certificate ${name} ${when}: ${remedy}`;
    log.error({ certificate: name, validTo: end }, message);
    warn(leftMs <= 0 ? 'CertificateExpired' : 'CertificateExpiring', message);
  }
}

function lifeOf({ name, certificate }: TrackedCertificate): CertificateLife {
  const parsed = new X509Certificate(certificate);
  const [from, to] = [Date.parse(parsed.validFrom), Date.parse(parsed.validTo)];
  return { name, isAuthority: parsed.ca, validTo: to, lifetimeMs: to - from };
}
