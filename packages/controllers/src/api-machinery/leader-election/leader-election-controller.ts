import { objectKey, splitKey } from '@oarlock/api/object';
import { leaseCandidatesV1beta1, leases as leaseResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime } from '@oarlock/api/values/time';
import type { Lease, LeaseSpec } from '@oarlock/api/types/coordination-v1';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import { watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import {
  pingTimeMs,
  candidateValidMs,
  pickBestLeader,
  electionMs,
  isLeaseExpired,
  isCandidateExpired,
  renewTimeMs,
  pickBestStrategy,
} from './election.ts';

const byLease = 'candidates-by-lease';
const keyOf = ({ metadata, spec }: LeaseCandidate) => `${metadata?.namespace}/${spec.leaseName}`;
/** Lease duration in seconds when the controller assigns a Lease to a holder, as upstream. The holder sets its own duration on renewal. */
const defaultLeaseDurationSeconds = 5;

/**
 * Chooses the holders of Leases that have LeaseCandidates (KEP-4355): pings the candidates and assigns the Lease to the best candidate that
 * acknowledges the ping. If another candidate holds the Lease, sets `preferredHolder`. Deletes expired candidates.
 */
export class LeaderElectionController implements Controller {
  readonly name = 'leader-election';
  readonly concurrentReconciles = 1;
  readonly watches;
  readonly #candidates: Informer<LeaseCandidate>;
  readonly #leases: Informer<Lease>;
  readonly #clock: Clock;

  constructor(informers: Informers, clock: Clock) {
    this.#clock = clock;
    this.#candidates = informers.forResource(leaseCandidatesV1beta1);
    this.#leases = informers.forResource(leaseResource);
    this.#candidates.addIndexer(byLease, (candidate) => [keyOf(candidate)]);
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
      if (isCandidateExpired(each, now)) await deleteCandidate(each, client);
      else candidates.push(each);
    }
    if (candidates.length === 0) return undefined;
    const lease = this.#leases.get(key);
    const result = { requeueAfterMs: this.#nextElectionCheck(candidates, lease, now) };
    if (!this.#electionNeeded(candidates, lease, now)) return result;
    if (await this.#pingCandidates(candidates, client, now)) return { requeueAfterMs: electionMs };
    const acknowledged = candidates.filter((each) => renewTimeMs(each) + electionMs > now);
    const strategy = pickBestStrategy(acknowledged);
    if (acknowledged.length === 0 || strategy === undefined) return { requeueAfterMs: electionMs };
    await this.#updateLease(key, lease, {
      strategy,
      electee: strategy === 'OldestEmulationVersion' ? pickBestLeader(acknowledged) : undefined,
      client,
    });
    return result;
  }

  /** Returns the milliseconds until the next election check that must run without a watch event. */
  #nextElectionCheck(candidates: readonly LeaseCandidate[], lease: Lease | undefined, now: number): number {
    const oldest = candidates.reduce((at, each) => Math.min(at, renewTimeMs(each)), Number.POSITIVE_INFINITY);
    const leaseDelayMs = lease === undefined || isLeaseExpired(lease, now) ? electionMs : (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
    return Math.max(1, Math.min(oldest + candidateValidMs / 2 - now, leaseDelayMs)) + 1;
  }

  /**
   * Returns true if there is no valid Lease, if the holder is not the best candidate, or if a candidate has not renewed for half of the time
   * after which candidates expire.
   */
  #electionNeeded(candidates: readonly LeaseCandidate[], lease: Lease | undefined, now: number): boolean {
    if (lease === undefined || isLeaseExpired(lease, now)) return true;
    if (candidates.some((each) => renewTimeMs(each) + candidateValidMs / 2 < now)) return true;
    const strategy = pickBestStrategy(candidates);
    if (strategy !== 'OldestEmulationVersion') return lease.spec?.strategy !== strategy;
    return lease.spec?.holderIdentity !== pickBestLeader(candidates)?.metadata?.name;
  }

  /** Pings the candidates that have not renewed within the election duration. Returns true if an acknowledgement may still arrive. */
  async #pingCandidates(candidates: readonly LeaseCandidate[], client: Client, now: number): Promise<boolean> {
    let pending = false;
    for (const each of candidates) {
      const pingedAt = pingTimeMs(each);
      const isAcknowledged = pingedAt === undefined || renewTimeMs(each) >= pingedAt;
      if (!isAcknowledged && pingedAt + electionMs > now) pending = true;
      else if (isAcknowledged && renewTimeMs(each) + electionMs <= now) {
        const candidateWithPing = { ...withTypeMeta(leaseCandidatesV1beta1, each), spec: { ...each.spec, pingTime: formatMicroTime(now) } };
        await client.update(leaseCandidatesV1beta1, candidateWithPing);
        pending = true;
      }
    }
    return pending;
  }

  async #updateLease(
    key: string,
    lease: Lease | undefined,
    { strategy, electee, client }: { readonly strategy: string; readonly electee: LeaseCandidate | undefined; readonly client: Client },
  ): Promise<void> {
    const now = this.#clock.now();
    const time = formatMicroTime(now);
    const holder = electee?.metadata?.name;
    const term: LeaseSpec = {
      strategy,
      ...(holder !== undefined && {
        holderIdentity: holder,
        leaseDurationSeconds: defaultLeaseDurationSeconds,
        renewTime: time,
        acquireTime: time,
      }),
    };
    if (lease === undefined) {
      await client.create(leaseResource, { metadata: splitKey(key), spec: { ...term, leaseTransitions: 0 } });
      return;
    }
    const { preferredHolder, ...spec } = lease.spec ?? {};
    const current = spec.holderIdentity ?? '';
    const free = current === '' || (isLeaseExpired(lease, now) && current !== holder);
    const changed: LeaseSpec =
      holder === undefined || current === holder
        ? { ...spec, ...(current !== holder && preferredHolder !== undefined && { preferredHolder }), strategy }
        : free
          ? { ...spec, ...term, leaseTransitions: (spec.leaseTransitions ?? 0) + 1 }
          : { ...spec, strategy, preferredHolder: holder };
    if (changed.strategy === spec.strategy && changed.preferredHolder === preferredHolder && changed.holderIdentity === spec.holderIdentity)
      return;
    await client.update(leaseResource, { ...withTypeMeta(leaseResource, lease), spec: changed });
  }
}

async function deleteCandidate(candidate: LeaseCandidate, client: Client): Promise<void> {
  const { uid, resourceVersion } = candidate.metadata ?? {};
  try {
    await client.delete(leaseCandidatesV1beta1, objectName(candidate), {
      preconditions: { ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) },
    });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}
