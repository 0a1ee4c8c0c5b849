import { leaseCandidatesV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime, parseTime } from '@oarlock/api/values/time';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { Client, Informers } from '@oarlock/spi/client';

export interface LeaseCandidacyOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log?: Logger;
  readonly namespace: string;
  /** Name of the candidate, which is the identity with which the candidate holds the Lease. */
  readonly name: string;
  /** The lease to be a candidate for. */
  readonly leaseName: string;
  /** A semantic version, such as 1.36.0. */
  readonly binaryVersion: string;
  readonly emulationVersion: string;
}

const renewMs = 5 * 60_000;
const retryMs = 5000;

/** Publishes a LeaseCandidate for coordinated leader election (KEP-4355), and renews it every five minutes and after each ping. */
export class LeaseCandidacy {
  readonly #options: LeaseCandidacyOptions;
  readonly #log: Logger;
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  #again = false;

  constructor(options: LeaseCandidacyOptions) {
    this.#options = options;
    this.#log = (options.log ?? silentLogger).child({ candidate: options.name, lease: options.leaseName });
  }

  /** Creates the candidate of a program with version `v1.36.0+more`, which emulates the version `emulates`, such as `1.35`, or the same version. */
  static ofProgram(
    version: string,
    {
      emulates,
      ...options
    }: Omit<LeaseCandidacyOptions, 'binaryVersion' | 'emulationVersion'> & { readonly emulates?: string | undefined },
  ): LeaseCandidacy {
    const [major = '0', minor = '0', patch = '0'] = version.replace(/^v/, '').split(/[.+-]/);
    return new LeaseCandidacy({
      ...options,
      binaryVersion: `${major}.${minor}.${patch}`,
      emulationVersion: `${emulates ?? `${major}.${minor}`}.0`,
    });
  }

  /** Runs until the signal aborts. The LeaseCandidate stays and is garbage collected by the coordinator after half an hour. */
  async run(signal: AbortSignal): Promise<void> {
    const { informers, namespace, name } = this.#options;
    const own = informers.forResource(leaseCandidatesV1beta1, { namespace, fieldSelector: `metadata.name=${name}` });
    const off = own.addEventHandler({
      onUpdate: (candidate) => {
        if (isPinged(candidate)) this.#publish(signal);
      },
    });
    this.#publish(signal);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
    off();
    this.#timer?.cancel();
    await this.#writing;
  }

  #publish(signal: AbortSignal): void {
    if (signal.aborted) return;
    if (this.#writing !== undefined) {
      this.#again = true;
      return;
    }
    this.#timer?.cancel();
    this.#writing = this.#write(signal).then((succeeded) => {
      this.#writing = undefined;
      if (signal.aborted) return;
      const next = this.#again;
      this.#again = false;
      if (next) this.#publish(signal);
      else this.#timer = this.#options.clock.after(succeeded ? renewMs : retryMs, () => this.#publish(signal));
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
      if (!signal.aborted) this.#log.warn({ err: error }, 'could not write the LeaseCandidate; retrying');
      return false;
    }
  }
}

/** Returns true if the coordinator pinged the candidate since its last renewal. */
const isPinged = ({ spec: { pingTime, renewTime } }: LeaseCandidate): boolean =>
  pingTime !== undefined && (parseTime(pingTime) ?? 0) > (parseTime(renewTime ?? '') ?? 0);
