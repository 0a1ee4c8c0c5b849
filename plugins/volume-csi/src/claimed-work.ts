import { leases } from '@oarlock/api/resources';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Informers } from '@oarlock/spi/client';
import type { Sidecar } from './sidecar.ts';

/** What sidecars of Kubernetes do beside a driver. */
export type Work = 'attach' | 'provision' | 'resize' | 'snapshot' | 'bind-snapshots';

/** As sidecars write the names of their leases (csi-lib-utils, leaderelection). */
const leaseName = (text: string) => text.replaceAll(/[^a-zA-Z0-9-]/g, '-').replace(/-$/, '-X');
const leaders: Readonly<Record<Work, (driver: string) => string>> = {
  attach: (driver) => `external-attacher-leader-${driver}`,
  provision: (driver) => driver,
  resize: (driver) => `external-resizer-${driver}`,
  snapshot: (driver) => `external-snapshotter-leader-${driver}`,
  // one for all drivers
  'bind-snapshots': () => 'snapshot-controller-leader',
};
/** The lease, in whichever namespace, by which a sidecar claims this work for a driver. */
export const leaseOf = (work: Work, driver: string): string => leaseName(leaders[work](driver));

export interface ClaimedWorkOptions {
  readonly work: Work;
  readonly driver: string;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
  /** One that was stopped does not start again: another is made. */
  make(): Sidecar;
}

/**
 * Work that is done from here as long as no sidecar of Kubernetes claims it: one that leads holds a lease. As in client-go, a lease holds for
 * its duration from when its renewal was seen, so that clocks need not agree.
 */
export class ClaimedWork implements Sidecar {
  readonly #options: ClaimedWorkOptions;
  /** By namespace: who holds a lease, and when that ends unless it is renewed. */
  readonly #held = new Map<string, { readonly timer: Timer }>();
  #own: Sidecar | undefined;
  #ready = false;
  #stopped = false;
  #off: (() => void) | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(options: ClaimedWorkOptions) {
    this.#options = options;
  }

  start(): void {
    const { informers, work, driver } = this.#options;
    const informer = informers.of(leases, { fieldSelector: `metadata.name=${leaseOf(work, driver)}` });
    const see = (lease: Lease) => this.#see(lease);
    this.#off = informer.on({ added: see, updated: see, deleted: (lease) => this.#free(lease.metadata?.namespace ?? '') });
    void informer.whenSynced().then(() => {
      this.#ready = true;
      this.#decide();
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#off?.();
    for (const { timer } of this.#held.values()) timer.cancel();
    this.#held.clear();
    this.#decide();
    await this.#turn;
  }

  #see({ metadata, spec }: Lease): void {
    const namespace = metadata?.namespace ?? '';
    this.#held.get(namespace)?.timer.cancel();
    if (!spec?.holderIdentity) {
      this.#free(namespace);
      return;
    }
    const ms = (spec.leaseDurationSeconds ?? 0) * 1000;
    this.#held.set(namespace, { timer: this.#options.clock.after(ms, () => this.#free(namespace)) });
    this.#decide();
  }

  #free(namespace: string): void {
    this.#held.get(namespace)?.timer.cancel();
    this.#held.delete(namespace);
    this.#decide();
  }

  /** One after another: what was begun has ended before it is begun again. */
  #decide(): void {
    this.#turn = this.#turn.then(async () => {
      const { make, log, work, driver } = this.#options;
      const ours = this.#ready && !this.#stopped && this.#held.size === 0;
      if (ours === (this.#own !== undefined)) return;
      if (ours) {
        this.#own = make();
        this.#own.start();
        return;
      }
      const before = this.#own;
      this.#own = undefined;
      await before?.stop();
      if (!this.#stopped) log.info({ driver, work }, 'a sidecar claims this work for a volume driver: it is left to it');
    });
  }
}
