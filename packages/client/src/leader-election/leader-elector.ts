import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime } from '@oarlock/api/values/time';
import type { Lease, LeaseSpec } from '@oarlock/api/types/coordination-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { LeaderElectionMetrics } from './leader-election-metrics.ts';

export interface LeaderElectionOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Identity of this candidate, unique among the candidates: for example the host name with a random suffix. */
  readonly identity: string;
  /** Time in milliseconds that other candidates wait before they acquire a Lease that is not renewed. Default 15,000 ms. */
  readonly leaseDurationMs?: number;
  /**
   * Time in milliseconds for which the leader tries to renew the Lease before it gives up; less than the lease duration. One attempt may use at
   * most half of it. Default 10,000 ms.
   */
  readonly renewDeadlineMs?: number;
  /** Delay between two attempts. Default 2000 ms. */
  readonly retryPeriodMs?: number;
  /**
   * Enables coordinated leader election (KEP-4355): the elector renews a Lease that names this candidate as the holder, and never acquires a Lease
   * itself.
   */
  readonly coordinated?: boolean;
  /** The leader's work. The signal aborts when the lease is lost or the election stops; the promise must resolve when all work has ended. */
  onStartedLeading(signal: AbortSignal): Promise<void>;
  onNewLeader?(identity: string): void;
  readonly metrics?: LeaderElectionMetrics;
  /** Records the start and end of each term as Events of the lease. */
  readonly events?: EventRecorder;
}

/** The last observed Lease, and the local time of the observation. Times in the Lease are not compared, because clocks differ. */
interface Observed {
  readonly lease: Lease;
  readonly at: number;
}
type Attempt = 'held' | 'taken' | 'failed';

/**
 * Leader election with a Lease, compatible with client-go's timing and record. At most one candidate leads as long as no clock runs faster
 * than another by more than the ratio of lease duration to renew deadline.
 */
export class LeaderElector {
  readonly #options: Required<Pick<LeaderElectionOptions, 'leaseDurationMs' | 'renewDeadlineMs' | 'retryPeriodMs'>> & LeaderElectionOptions;
  readonly #log: Logger;
  #observed: Observed | undefined;
  #leader: string | undefined;
  #leading = false;

  constructor(options: LeaderElectionOptions) {
    this.#options = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2000, ...options };
    const { leaseDurationMs, renewDeadlineMs, retryPeriodMs, lease, identity } = this.#options;
    if (!(leaseDurationMs > renewDeadlineMs && renewDeadlineMs > retryPeriodMs * 1.2 && retryPeriodMs > 0))
      throw new Error('leader election needs duration > deadline > 1.2 times the retry period');
    this.#log = (options.log ?? silentLogger).child({ lease: `${lease.namespace}/${lease.name}`, identity });
  }

  get isLeader(): boolean {
    return this.#leading;
  }
  /** Identity of the leader as last observed; '' if there is none. */
  get leader(): string {
    return this.#observed?.lease.spec?.holderIdentity ?? '';
  }

  /** Acquires the Lease, leads, and starts over, until the signal aborts; releases the Lease at the end. Rejects if `onStartedLeading` rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, retryPeriodMs } = this.#options;
    while (!signal.aborted) {
      const startedAt = clock.monotonic();
      if ((await this.#limitedAttempt(this.#options.renewDeadlineMs, signal)) === 'held') await this.#lead(signal, startedAt);
      if (!signal.aborted) await clock.sleep(retryPeriodMs * (1 + 1.2 * random()), signal).catch(() => undefined);
    }
  }

  async #lead(signal: AbortSignal, startedAt: number): Promise<void> {
    this.#log.info({}, 'became leader');
    this.#recordEvent('became leader');
    this.#leading = true;
    this.#options.metrics?.leading(true);
    const term = new AbortController();
    const stop = () => term.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const work = this.#options.onStartedLeading(term.signal).finally(() => term.abort());
    // a rejection of onStartedLeading is rethrown below; until then it has no handler
    work.catch(() => undefined);
    try {
      await this.#renew(term, startedAt);
      await work;
    } finally {
      this.#leading = false;
      this.#options.metrics?.leading(false);
      signal.removeEventListener('abort', stop);
      this.#recordEvent('stopped leading');
      await this.#release();
    }
  }

  #recordEvent(what: string): void {
    const { events, lease: metadata, identity } = this.#options;
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata };
    events?.event(lease, 'Normal', 'LeaderElection', `${identity} ${what}`);
  }

  /**
   * Renews the Lease until the term ends, at the latest `renewDeadlineMs` after the last renewal, because other candidates may acquire the Lease soon
   * after that. An attempt that takes longer than the retry period is followed by the next one at once, as with client-go's ticker.
   */
  async #renew(term: AbortController, startedAt: number): Promise<void> {
    const { clock, retryPeriodMs, renewDeadlineMs } = this.#options;
    let renewedAt = startedAt;
    let nextAt = clock.monotonic() + retryPeriodMs;
    while (!term.signal.aborted) {
      const delay = nextAt - clock.monotonic();
      if (delay > 0) await clock.sleep(delay, term.signal).catch(() => undefined);
      if (term.signal.aborted) return;
      const attemptAt = clock.monotonic();
      nextAt = attemptAt + retryPeriodMs;
      const outcome = await this.#limitedAttempt(renewedAt + renewDeadlineMs - attemptAt, term.signal);
      if (outcome === 'held') {
        renewedAt = attemptAt;
        continue;
      }
      if (term.signal.aborted) return;
      if (outcome === 'failed' && clock.monotonic() - renewedAt < renewDeadlineMs) continue;
      this.#log.warn({ leader: this.leader }, 'lost the lease');
      term.abort(new Error('the lease was lost'));
    }
  }

  /**
   * Runs one attempt for at most `ms`, and at most half of the renew deadline (client-go's request timeout): a request that hangs, for example while
   * the store elects a leader, leaves time for another attempt.
   */
  #limitedAttempt(ms: number, outer: AbortSignal): Promise<Attempt> {
    const limitMs = Math.max(1, Math.min(ms, this.#options.renewDeadlineMs / 2));
    return this.#within(limitMs, outer, (signal) => this.#attempt(signal)).catch((error: unknown): Attempt => {
      if (!outer.aborted) this.#log.debug({ err: error }, 'an attempt to take or renew the lease timed out');
      return 'failed';
    });
  }

  /** Rejects if the work takes longer than `ms`, even if it ignores its signal. */
  async #within<T>(ms: number, outer: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const timer = this.#options.clock.after(ms, () => limit.abort(new Error('the request timed out')));
    const cancel = () => limit.abort(outer?.reason);
    outer?.addEventListener('abort', cancel, { once: true });
    try {
      return await Promise.race([
        work(limit.signal),
        new Promise<never>((_, reject) => {
          limit.signal.addEventListener('abort', () => reject(limit.signal.reason), { once: true });
        }),
      ]);
    } finally {
      timer.cancel();
      outer?.removeEventListener('abort', cancel);
    }
  }

  /**
   * Acquires or renews the Lease if it is free, expired or held by this candidate. With coordinated election, only renews a Lease that names this
   * candidate as the holder.
   */
  async #attempt(signal: AbortSignal): Promise<Attempt> {
    const { client, clock, identity, lease: at, leaseDurationMs, coordinated = false } = this.#options;
    try {
      const ownLease = this.#ownLease();
      let current = ownLease;
      if (current === undefined) {
        try {
          current = await client.get(leases, at, { signal });
        } catch (error) {
          if (!isStatus(error, 'NotFound')) throw error;
          if (coordinated) return 'taken';
          this.#observe(await client.create(leases, { metadata: at, spec: this.#record(undefined) }, { signal }));
          return 'held';
        }
        this.#observe(current);
        const holder = current.spec?.holderIdentity ?? '';
        const valid = (this.#observed?.at ?? 0) + (current.spec?.leaseDurationSeconds ?? leaseDurationMs / 1000) * 1000 > clock.monotonic();
        if (holder !== '' && holder !== identity && valid) return 'taken';
        // coordinated: a term ends when another holder is preferred, and the coordinator assigns an expired lease
        if (coordinated && (holder !== identity || (this.#leading && (!valid || current.spec?.preferredHolder)))) return 'taken';
      }
      try {
        const { preferredHolder: _ignored, ...kept } = current.spec ?? {};
        this.#observe(await client.update(leases, { ...current, spec: { ...kept, ...this.#record(current.spec) } }, { signal }));
        return 'held';
      } catch (error) {
        if (ownLease === undefined || signal.aborted || !isStatus(error, 'Conflict', 'NotFound')) throw error;
        // another client changed the lease: read it before the next attempt
        this.#observed = undefined;
        return await this.#attempt(signal);
      }
    } catch (error) {
      if (!signal.aborted) this.#log.debug({ err: error }, 'could not take or renew the lease');
      return 'failed';
    }
  }

  /** Returns the Lease if this candidate holds it, so that it can be renewed without a read; otherwise undefined. */
  #ownLease(): Lease | undefined {
    const { lease } = this.#observed ?? {};
    return this.#leading && lease?.spec?.holderIdentity === this.#options.identity ? lease : undefined;
  }

  #record(old: LeaseSpec | undefined): LeaseSpec {
    const { clock, identity, leaseDurationMs } = this.#options;
    const now = formatMicroTime(clock.now());
    const kept = old?.holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(leaseDurationMs / 1000),
      renewTime: now,
      acquireTime: kept ? (old?.acquireTime ?? now) : now,
      leaseTransitions: (old?.leaseTransitions ?? 0) + (kept || old === undefined ? 0 : 1),
    };
  }

  #observe(lease: Lease): void {
    const { spec } = this.#observed?.lease ?? {};
    const next = lease.spec;
    const same =
      spec !== undefined &&
      spec.renewTime === next?.renewTime &&
      spec.holderIdentity === next?.holderIdentity &&
      spec.acquireTime === next?.acquireTime;
    this.#observed = { lease, at: same ? (this.#observed?.at ?? 0) : this.#options.clock.monotonic() };
    const holder = next?.holderIdentity ?? '';
    if (holder === this.#leader) return;
    this.#leader = holder;
    if (holder !== '') this.#options.onNewLeader?.(holder);
  }

  /** Clears the holder of the lease, so that other candidates need not wait for its expiry. */
  async #release(): Promise<void> {
    if (this.leader !== this.#options.identity) return;
    try {
      await this.#within(this.#options.retryPeriodMs, undefined, (signal) => this.#clearHolder(signal));
    } catch (error) {
      this.#log.info({ err: error }, 'could not release the lease; it will expire');
    }
  }

  async #clearHolder(signal: AbortSignal): Promise<void> {
    const { client, identity, lease: at } = this.#options;
    const observed = this.#observed?.lease;
    if (observed === undefined) return;
    try {
      this.#observe(await client.update(leases, this.#released(observed), { signal }));
    } catch (error) {
      if (!isStatus(error, 'Conflict')) throw error;
      // a renewal that was cancelled or timed out may have been committed
      const current = await client.get(leases, at, { signal });
      this.#observe(current);
      if (current.spec?.holderIdentity === identity) this.#observe(await client.update(leases, this.#released(current), { signal }));
    }
  }

  #released(lease: Lease): Lease {
    const now = formatMicroTime(this.#options.clock.now());
    const { leaseTransitions = 0, ...rest } = lease.spec ?? {};
    return { ...lease, spec: { ...rest, holderIdentity: '', leaseDurationSeconds: 1, renewTime: now, acquireTime: now, leaseTransitions } };
  }
}
