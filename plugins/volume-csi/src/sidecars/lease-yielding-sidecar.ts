import { leases } from '@oarlock/api/resources';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Informers } from '@oarlock/spi/client';
import type { Sidecar } from './sidecar.ts';

/** The work of one Kubernetes CSI sidecar for a driver. */
export type SidecarRole = 'attach' | 'provision' | 'resize' | 'snapshot' | 'bind-snapshots' | 'monitor';

/** Sanitizes a Lease name as the sidecars do (csi-lib-utils, leaderelection). */
const leaseName = (text: string) => text.replaceAll(/[^a-zA-Z0-9-]/g, '-').replace(/-$/, '-X');
const leaders: Readonly<Record<SidecarRole, (driver: string) => string>> = {
  attach: (driver) => `external-attacher-leader-${driver}`,
  provision: (driver) => driver,
  resize: (driver) => `external-resizer-${driver}`,
  snapshot: (driver) => `external-snapshotter-leader-${driver}`,
  monitor: (driver) => `external-health-monitor-leader-${driver}`,
  // one controller for all drivers
  'bind-snapshots': () => 'snapshot-controller-leader',
};
/** Returns the name of the Lease that a Kubernetes sidecar holds for this work, in any namespace. */
export const leaseOf = (work: SidecarRole, driver: string): string => leaseName(leaders[work](driver));

export interface LeaseYieldingSidecarOptions {
  readonly work: SidecarRole;
  readonly driver: string;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
  /** Creates the sidecar. A stopped sidecar is not restarted; a new sidecar is created instead. */
  make(): Sidecar;
}

/**
 * Does the work of a sidecar while no Kubernetes sidecar holds the Lease for that work. As in client-go, a Lease is valid for its duration after its
 * renewal was observed, so that clocks need not be synchronized.
 */
export class LeaseYieldingSidecar implements Sidecar {
  readonly #options: LeaseYieldingSidecarOptions;
  /** The held Leases, keyed by namespace, each with the timer of its expiry. */
  readonly #held = new Map<string, { readonly timer: Timer }>();
  #sidecar: Sidecar | undefined;
  #ready = false;
  #stopped = false;
  #off: (() => void) | undefined;
  #transition: Promise<void> = Promise.resolve();

  constructor(options: LeaseYieldingSidecarOptions) {
    this.#options = options;
  }

  start(): void {
    const { informers, work, driver } = this.#options;
    const informer = informers.forResource(leases, { fieldSelector: `metadata.name=${leaseOf(work, driver)}` });
    const update = (lease: Lease) => this.#update(lease);
    this.#off = informer.addEventHandler({
      onAdd: update,
      onUpdate: update,
      onDelete: (lease) => this.#release(lease.metadata?.namespace ?? ''),
    });
    void informer.whenSynced().then(() => {
      this.#ready = true;
      this.#reconcile();
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#off?.();
    for (const { timer } of this.#held.values()) timer.cancel();
    this.#held.clear();
    this.#reconcile();
    await this.#transition;
  }

  #update({ metadata, spec }: Lease): void {
    const namespace = metadata?.namespace ?? '';
    this.#held.get(namespace)?.timer.cancel();
    if (!spec?.holderIdentity) {
      this.#release(namespace);
      return;
    }
    const ms = (spec.leaseDurationSeconds ?? 0) * 1000;
    this.#held.set(namespace, { timer: this.#options.clock.after(ms, () => this.#release(namespace)) });
    this.#reconcile();
  }

  #release(namespace: string): void {
    this.#held.get(namespace)?.timer.cancel();
    this.#held.delete(namespace);
    this.#reconcile();
  }

  /** Starts or stops the sidecar. Transitions do not overlap: a stopped sidecar has ended before the next sidecar starts. */
  #reconcile(): void {
    this.#transition = this.#transition.then(async () => {
      const { make, log, work, driver } = this.#options;
      const shouldRun = this.#ready && !this.#stopped && this.#held.size === 0;
      if (shouldRun === (this.#sidecar !== undefined)) return;
      if (shouldRun) {
        this.#sidecar = make();
        this.#sidecar.start();
        return;
      }
      const sidecar = this.#sidecar;
      this.#sidecar = undefined;
      await sidecar?.stop();
      if (!this.#stopped) log.info({ driver, work }, 'a sidecar holds the lease for this work of a CSI driver: yielding to it');
    });
  }
}
