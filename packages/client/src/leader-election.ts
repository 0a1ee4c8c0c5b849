import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime } from '@oarlock/api/time';
import type { Lease, LeaseSpec } from '@oarlock/api/types/coordination-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Client, EventRecorder } from '@oarlock/spi/client';

export interface LeaderElectionOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Unique among the candidates, e.g. host name and a random part. */
  readonly identity: string;
  /** How long others wait for a holder that falls silent. Default 15,000 ms. */
  readonly leaseDurationMs?: number;
  /** How long the leader tries to renew before it gives up; less than the duration. Default 10,000 ms. */
  readonly renewDeadlineMs?: number;
  /** Between two attempts. Default 2000 ms. */
  readonly retryPeriodMs?: number;
  /** Who leads is for somebody else to say (KEP-4355): the lease is held and renewed as soon as it names this candidate, and never taken. */
  readonly coordinated?: boolean;
  /** Leads until the signal aborts, which it does when the lease is lost or the election is stopped; the promise resolves when all work has ended. */
  onStarted(signal: AbortSignal): Promise<void>;
  onNewLeader?(identity: string): void;
  /** Tells of the beginning and the end of each term, in Events about the lease. */
  readonly events?: EventRecorder;
}

/** A lease as last seen, and when by our own clock: those of other machines are not trusted. */
interface Observed {
  readonly lease: Lease;
  readonly at: number;
}
type Attempt = 'held' | 'taken' | 'failed';

/**
 * Leader election by a Lease, with client-go's timing and record, so that the candidates may be of either kind. At most one candidate leads,
 * as long as no clock runs faster than another by more than duration / deadline.
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

  get leading(): boolean {
    return this.#leading;
  }
  /** Who leads as far as we know; '' when nobody does. */
  get leader(): string {
    return this.#observed?.lease.spec?.holderIdentity ?? '';
  }

  /** Campaigns, leads and campaigns again until the signal aborts; then gives the lease back. Rejects with what `onStarted` rejects with. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, retryPeriodMs } = this.#options;
    while (!signal.aborted) {
      const began = clock.monotonic();
      if ((await this.#attempt(signal)) === 'held') await this.#lead(signal, began);
      if (!signal.aborted) await clock.sleep(retryPeriodMs * (1 + 1.2 * random()), signal).catch(() => undefined);
    }
  }

  async #lead(signal: AbortSignal, began: number): Promise<void> {
    this.#log.info({}, 'became leader');
    this.#tell('became leader');
    this.#leading = true;
    const term = new AbortController();
    const stop = () => term.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const work = this.#options.onStarted(term.signal).finally(() => term.abort());
    // Whatever `onStarted` rejects with is thrown below; until then nobody listens.
    work.catch(() => undefined);
    try {
      await this.#renew(term, began);
      await work;
    } finally {
      this.#leading = false;
      signal.removeEventListener('abort', stop);
      this.#tell('stopped leading');
      await this.#release();
    }
  }

  #tell(what: string): void {
    const { events, lease: metadata, identity } = this.#options;
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata };
    events?.event(lease, 'Normal', 'LeaderElection', `${identity} ${what}`);
  }

  /** Resolves when the term is over, at the latest at the deadline after the last renewal: others may take the lease soon after. */
  async #renew(term: AbortController, began: number): Promise<void> {
    const { clock, retryPeriodMs, renewDeadlineMs } = this.#options;
    let renewed = began;
    while (!term.signal.aborted) {
      await clock.sleep(retryPeriodMs, term.signal).catch(() => undefined);
      if (term.signal.aborted) return;
      const asked = clock.monotonic();
      const outcome = await this.#within(renewed + renewDeadlineMs - asked, term.signal, (signal) => this.#attempt(signal)).catch(
        (): Attempt => 'failed',
      );
      if (outcome === 'held') {
        renewed = asked;
        continue;
      }
      if (term.signal.aborted) return;
      if (outcome === 'failed' && clock.monotonic() - renewed < renewDeadlineMs) continue;
      this.#log.warn({ leader: this.leader }, 'lost the lease');
      term.abort(new Error('the lease was lost'));
    }
  }

  /** Rejects when the work takes longer than `ms`, even if it does not heed its signal. */
  async #within<T>(ms: number, outer: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const timer = this.#options.clock.after(ms, () => limit.abort(new Error('the request took too long')));
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

  /** Takes or renews the lease if it may. */
  async #attempt(signal: AbortSignal): Promise<Attempt> {
    const { client, clock, identity, lease: at, leaseDurationMs, coordinated = false } = this.#options;
    try {
      const mine = this.#mine();
      let current = mine;
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
        // a term is over when somebody else is preferred, and one that has run out is for the coordinator to give away anew
        if (coordinated && (holder !== identity || (this.#leading && (!valid || current.spec?.preferredHolder)))) return 'taken';
      }
      try {
        const { preferredHolder: _heeded, ...kept } = current.spec ?? {};
        this.#observe(await client.update(leases, { ...current, spec: { ...kept, ...this.#record(current.spec) } }, { signal }));
        return 'held';
      } catch (error) {
        if (mine === undefined || signal.aborted || !isStatus(error, 'Conflict', 'NotFound')) throw error;
        // Somebody wrote to what we took for ours: look before the next attempt.
        this.#observed = undefined;
        return await this.#attempt(signal);
      }
    } catch (error) {
      if (!signal.aborted) this.#log.debug({ err: error }, 'could not take or renew the lease');
      return 'failed';
    }
  }

  /** Our own lease, which needs no look before it is renewed. */
  #mine(): Lease | undefined {
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

  /** Says that nobody holds the lease, so that others need not wait for it to run out. */
  async #release(): Promise<void> {
    const { client, clock, identity, retryPeriodMs } = this.#options;
    const lease = this.#observed?.lease;
    if (lease?.spec?.holderIdentity !== identity) return;
    const now = formatMicroTime(clock.now());
    try {
      const { leaseTransitions = 0, ...rest } = lease.spec;
      const free: Lease = {
        ...lease,
        spec: { ...rest, holderIdentity: '', leaseDurationSeconds: 1, renewTime: now, acquireTime: now, leaseTransitions },
      };
      this.#observe(await this.#within(retryPeriodMs, undefined, (signal) => client.update(leases, free, { signal })));
    } catch (error) {
      this.#log.info({ err: error }, 'could not give the lease back; it runs out by itself');
    }
  }
}
