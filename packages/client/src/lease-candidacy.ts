import { leaseCandidatesV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime, parseTime } from '@oarlock/api/time';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Client, Informers } from '@oarlock/spi/client';

export interface LeaseCandidacyOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log?: Logger;
  readonly namespace: string;
  /** Of the candidate: the identity with which it holds the lease. */
  readonly name: string;
  /** The lease it would hold. */
  readonly leaseName: string;
  /** A semantic version, such as 1.36.0. */
  readonly binaryVersion: string;
  readonly emulationVersion: string;
}

const renewMs = 5 * 60_000;
const retryMs = 5000;

/** Stands as a candidate for a lease whose holder is chosen by others (KEP-4355): says so every five minutes, and at once when asked. */
export class LeaseCandidacy {
  readonly #options: LeaseCandidacyOptions;
  readonly #log: Logger;
  #timer: Timer | undefined;
  #saying: Promise<void> | undefined;
  #again = false;

  constructor(options: LeaseCandidacyOptions) {
    this.#options = options;
    this.#log = (options.log ?? silentLogger).child({ candidate: options.name, lease: options.leaseName });
  }

  /** The candidate of a program of one version: `v1.36.0+more`, which it emulates, too. */
  static ofProgram(version: string, options: Omit<LeaseCandidacyOptions, 'binaryVersion' | 'emulationVersion'>): LeaseCandidacy {
    const [major = '0', minor = '0', patch = '0'] = version.replace(/^v/, '').split(/[.+-]/);
    return new LeaseCandidacy({ ...options, binaryVersion: `${major}.${minor}.${patch}`, emulationVersion: `${major}.${minor}.0` });
  }

  /** Until the signal aborts. What is written then stays, and is forgotten by who chooses after half an hour. */
  async run(signal: AbortSignal): Promise<void> {
    const { informers, namespace, name } = this.#options;
    const own = informers.of(leaseCandidatesV1beta1, { namespace, fieldSelector: `metadata.name=${name}` });
    const off = own.on({
      updated: (candidate) => {
        if (isAsked(candidate)) this.#say(signal);
      },
    });
    this.#say(signal);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
    off();
    this.#timer?.cancel();
    await this.#saying;
  }

  #say(signal: AbortSignal): void {
    if (signal.aborted) return;
    if (this.#saying !== undefined) {
      this.#again = true;
      return;
    }
    this.#timer?.cancel();
    this.#saying = this.#write(signal).then((written) => {
      this.#saying = undefined;
      if (signal.aborted) return;
      const next = this.#again;
      this.#again = false;
      if (next) this.#say(signal);
      else this.#timer = this.#options.clock.after(written ? renewMs : retryMs, () => this.#say(signal));
    });
  }

  async #write(signal: AbortSignal): Promise<boolean> {
    const { client, clock, namespace, name, leaseName, binaryVersion, emulationVersion } = this.#options;
    const at = { namespace, name };
    const renewTime = formatMicroTime(clock.now());
    try {
      const known = await client.get(leaseCandidatesV1beta1, at, { signal }).catch((error: unknown) => {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      });
      if (known !== undefined) await client.update(leaseCandidatesV1beta1, { ...known, spec: { ...known.spec, renewTime } }, { signal });
      else
        await client.create(
          leaseCandidatesV1beta1,
          { metadata: at, spec: { leaseName, binaryVersion, emulationVersion, strategy: 'OldestEmulationVersion', renewTime } },
          { signal },
        );
      return true;
    } catch (error) {
      if (!signal.aborted) this.#log.warn({ err: error }, 'could not stand as a candidate; trying again');
      return false;
    }
  }
}

/** Whoever chooses wants to know whether it is still there. */
const isAsked = ({ spec: { pingTime, renewTime } }: LeaseCandidate): boolean =>
  pingTime !== undefined && (parseTime(pingTime) ?? 0) > (parseTime(renewTime ?? '') ?? 0);
