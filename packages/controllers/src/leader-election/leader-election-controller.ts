import { objectKey, splitKey } from '@oarlock/api/object';
import { leaseCandidatesV1beta1, leases as leaseResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime } from '@oarlock/api/time';
import type { Lease, LeaseSpec } from '@oarlock/api/types/coordination-v1';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import { watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { nameOf, typed } from '../pod-template.ts';
import { askedAt, candidateValidMs, elect, electionMs, isExpired, isOver, saidAt, strategyOf } from './election.ts';

const byLease = 'candidates-by-lease';
const keyOf = ({ metadata, spec }: LeaseCandidate) => `${metadata?.namespace}/${spec.leaseName}`;
/** Of a lease that was just given to somebody who does not know it yet. */
const firstSeconds = 5;

/**
 * Chooses the holders of leases for which there are LeaseCandidates (KEP-4355): asks them whether they are there, names the best of those that
 * answer, and asks a holder that is not the best one to make way. Candidates that are gone are deleted.
 */
export class LeaderElectionController implements Controller {
  readonly name = 'leader-election';
  readonly workers = 1;
  readonly watches;
  readonly #candidates: Informer<LeaseCandidate>;
  readonly #leases: Informer<Lease>;
  readonly #clock: Clock;

  constructor(informers: Informers, clock: Clock) {
    this.#clock = clock;
    this.#candidates = informers.of(leaseCandidatesV1beta1);
    this.#leases = informers.of(leaseResource);
    this.#candidates.addIndex(byLease, (candidate) => [keyOf(candidate)]);
    this.watches = [
      watch(this.#candidates, (candidate) => [keyOf(candidate)]),
      watch(this.#leases, (lease) => (this.#candidates.byIndex(byLease, objectKey(lease)).length > 0 ? [objectKey(lease)] : [])),
    ];
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const now = this.#clock.now();
    const all = this.#candidates.byIndex(byLease, key);
    const candidates: LeaseCandidate[] = [];
    for (const each of all) {
      if (isOver(each, now)) await forget(each, client);
      else candidates.push(each);
    }
    if (candidates.length === 0) return undefined;
    const lease = this.#leases.get(key);
    const next = { requeueAfterMs: this.#nextLook(candidates, lease, now) };
    if (!this.#isDue(candidates, lease, now)) return next;
    if (await this.#ask(candidates, client, now)) return { requeueAfterMs: electionMs };
    const present = candidates.filter((each) => saidAt(each) + electionMs > now);
    const strategy = strategyOf(present);
    if (present.length === 0 || strategy === undefined) return { requeueAfterMs: electionMs };
    await this.#write(key, lease, strategy, strategy === 'OldestEmulationVersion' ? elect(present) : undefined, client);
    return next;
  }

  /** Milliseconds until something is due that no change tells of. */
  #nextLook(candidates: readonly LeaseCandidate[], lease: Lease | undefined, now: number): number {
    const oldest = candidates.reduce((at, each) => Math.min(at, saidAt(each)), Number.POSITIVE_INFINITY);
    const leftOfLease = lease === undefined || isExpired(lease, now) ? electionMs : (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
    return Math.max(1, Math.min(oldest + candidateValidMs / 2 - now, leftOfLease)) + 1;
  }

  /** There is no leader, not the best one, or some candidate has not been heard of for long. */
  #isDue(candidates: readonly LeaseCandidate[], lease: Lease | undefined, now: number): boolean {
    if (lease === undefined || isExpired(lease, now)) return true;
    if (candidates.some((each) => saidAt(each) + candidateValidMs / 2 < now)) return true;
    const strategy = strategyOf(candidates);
    if (strategy !== 'OldestEmulationVersion') return lease.spec?.strategy !== strategy;
    return lease.spec?.holderIdentity !== elect(candidates)?.metadata?.name;
  }

  /** Asks those who have said nothing lately; whether an answer may still come. */
  async #ask(candidates: readonly LeaseCandidate[], client: Client, now: number): Promise<boolean> {
    let waiting = false;
    for (const each of candidates) {
      const asked = askedAt(each);
      const answered = asked === undefined || saidAt(each) >= asked;
      if (!answered && asked + electionMs > now) waiting = true;
      else if (answered && saidAt(each) + electionMs <= now) {
        const pinged = { ...typed(leaseCandidatesV1beta1, each), spec: { ...each.spec, pingTime: formatMicroTime(now) } };
        await client.update(leaseCandidatesV1beta1, pinged);
        waiting = true;
      }
    }
    return waiting;
  }

  async #write(
    key: string,
    lease: Lease | undefined,
    strategy: string,
    electee: LeaseCandidate | undefined,
    client: Client,
  ): Promise<void> {
    const now = this.#clock.now();
    const time = formatMicroTime(now);
    const holder = electee?.metadata?.name;
    const term: LeaseSpec = {
      strategy,
      ...(holder !== undefined && { holderIdentity: holder, leaseDurationSeconds: firstSeconds, renewTime: time, acquireTime: time }),
    };
    if (lease === undefined) {
      await client.create(leaseResource, { metadata: splitKey(key), spec: { ...term, leaseTransitions: 0 } });
      return;
    }
    const { preferredHolder, ...spec } = lease.spec ?? {};
    const current = spec.holderIdentity ?? '';
    const free = current === '' || (isExpired(lease, now) && current !== holder);
    const changed: LeaseSpec =
      holder === undefined || current === holder
        ? { ...spec, ...(current !== holder && preferredHolder !== undefined && { preferredHolder }), strategy }
        : free
          ? { ...spec, ...term, leaseTransitions: (spec.leaseTransitions ?? 0) + 1 }
          : { ...spec, strategy, preferredHolder: holder };
    if (changed.strategy === spec.strategy && changed.preferredHolder === preferredHolder && changed.holderIdentity === spec.holderIdentity)
      return;
    await client.update(leaseResource, { ...typed(leaseResource, lease), spec: changed });
  }
}

async function forget(candidate: LeaseCandidate, client: Client): Promise<void> {
  const { uid, resourceVersion } = candidate.metadata ?? {};
  try {
    await client.delete(leaseCandidatesV1beta1, nameOf(candidate), {
      preconditions: { ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) },
    });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}
