import type { Logger } from '@oarlock/kernel/logger';
import type { Clock } from '@oarlock/kernel/clock';
import { causeOf, failSpan, startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { NodeInfo, PodInfo } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import { Cycle, type Refusal } from './cycle.ts';
import type { Extender } from './extender.ts';
import { passes, permit, reserve, score, unreserve, type Refused } from './framework.ts';
import type { NodeCache } from './node-cache.ts';
import { countReasons, noNodes, NodeSearch, unschedulableMessage, type SearchResult } from './node-search.ts';
import type { Nominations } from './nominations.ts';
import type { SchedulingProfile } from './profiles.ts';
import type { SchedulerMetrics } from './scheduler-metrics.ts';
import type { Waiting } from './scheduling-queue.ts';

export interface CycleParts {
  readonly cache: NodeCache;
  readonly nominations: Nominations;
  readonly extenders: readonly Extender[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly random: () => number;
  readonly metrics: SchedulerMetrics;
}

interface Attempt {
  readonly waiting: Waiting;
  readonly profile: SchedulingProfile;
  readonly cause: Cause | undefined;
}
/** Has its node, which counts it already, and is to be bound. */
export interface Placed extends Attempt {
  readonly cycle: Cycle;
  readonly node: string;
  readonly began: number;
  /** The plugins that hold it, and how long at most. */
  readonly holds: ReadonlyMap<string, number> | undefined;
}
export interface Failed extends Attempt {
  readonly failure: {
    /** Empty: nobody in particular. */
    readonly by: ReadonlySet<string>;
    readonly reason: 'Unschedulable' | 'SchedulerError';
    readonly message: string;
    /** Where room is kept for it now; '' takes back what was kept. */
    readonly nominated?: string;
  };
}

export interface PlaceOptions {
  /** The only nodes to look at. */
  readonly only?: ReadonlySet<string>;
  /** Make room by preemption; on unless it says otherwise. */
  readonly preempt?: boolean;
  /** It is undone in any case: no attempt of the pod. */
  readonly trial?: boolean;
}

const shownScores = 5;

export const reasonsOf = (outcome: Refused): string => ('reasons' in outcome ? outcome.reasons.join(', ') : outcome.code);
/** Whom to ask what the pod waits for; nobody when something just failed. `onOneNode`: it had its node, and was refused there. */
export function failureOf(outcome: Refused, onOneNode: boolean): Failed['failure'] {
  const refused = outcome.code !== 'error';
  return {
    by: new Set(refused && outcome.plugin !== undefined ? [outcome.plugin] : []),
    reason: refused ? 'Unschedulable' : 'SchedulerError',
    message: refused && onOneNode ? `0/1 nodes are available: 1 ${reasonsOf(outcome)}.` : reasonsOf(outcome),
    nominated: '',
  };
}

/** Finds the node for one pod: filter, score, assume, reserve, permit. */
export class SchedulingCycle {
  readonly #parts: CycleParts;
  readonly #search = new NodeSearch();

  constructor(parts: CycleParts) {
    this.#parts = parts;
  }

  async place(waiting: Waiting, profile: SchedulingProfile, signal: AbortSignal, options: PlaceOptions = {}): Promise<Placed | Failed> {
    const { tracer, clock, metrics, cache, log } = this.#parts;
    const began = clock.monotonic();
    const span = startSpan(tracer, 'schedule', {
      cause: waiting.cause,
      attributes: { 'oarlock.key': waiting.key, 'oarlock.enqueued_at': waiting.enqueuedAt },
    });
    const attempt: Attempt = { waiting, profile, cause: causeOf(span) };
    const fail = (failure: Failed['failure']): Failed => {
      failSpan(span, failure.message);
      if (options.trial !== true)
        metrics.attempt(failure.reason === 'Unschedulable' ? 'unschedulable' : 'error', profile.schedulerName, clock.monotonic() - began);
      return { ...attempt, failure };
    };
    try {
      const cycle = this.#cycle(profile, signal, options.only);
      const found = await this.#filter(attempt, cycle, signal);
      if (found.fits.length === 0) return fail(await this.#noFit(attempt, cycle, found, options.preempt !== false));
      const node = await this.#choose(attempt, cycle, found.fits, signal);
      const taken = await this.#take(attempt, cycle, node.name, began);
      return 'code' in taken ? fail(failureOf(taken, true)) : taken;
    } catch (error) {
      cache.forget(waiting.key);
      log.error({ pod: waiting.key, err: error }, 'a scheduling cycle failed');
      return fail({ by: new Set(), reason: 'SchedulerError', message: (error as Error).message, nominated: '' });
    } finally {
      span.end();
    }
  }

  get nominations(): Nominations {
    return this.#parts.nominations;
  }

  /** Gives back what a pod was given. */
  undo({ waiting, cycle, node, profile }: Placed): void {
    unreserve(profile.framework, cycle, waiting, node);
    this.#parts.cache.forget(waiting.key);
  }

  #cycle({ framework }: SchedulingProfile, signal: AbortSignal, only: ReadonlySet<string> | undefined): Cycle {
    const { cache, nominations, extenders } = this.#parts;
    const preempting = extenders.filter(({ preempts }) => preempts);
    return new Cycle(cache, framework, {
      nominations,
      only,
      extendPreemption:
        preempting.length === 0
          ? undefined
          : async (pod, places) => {
              let left = places;
              for (const extender of preempting) {
                if (left.length === 0 || !extender.isInterested(pod.pod)) continue;
                const before = left;
                left = await orIgnore(extender, before, () => extender.preempt(pod.pod, before, cache, signal));
              }
              return left;
            },
    });
  }

  async #filter({ waiting, profile, cause }: Attempt, cycle: Cycle, signal: AbortSignal): Promise<SearchResult> {
    const span = startSpan(this.#parts.tracer, 'filter', { cause });
    let found = this.#search.run(profile.framework, profile.percentageOfNodesToScore, cycle, waiting);
    for (const extender of this.#parts.extenders) {
      if (found.fits.length === 0 || !extender.filters || !extender.isInterested(waiting.pod)) continue;
      const { fits } = found;
      const answer = await orIgnore(extender, { fits, refused: new Map<string, Refusal>() }, () =>
        extender.filter(waiting.pod, fits, signal),
      );
      found = {
        ...found,
        // a node may have gone while it was asked
        fits: answer.fits.filter(({ name }) => cycle.snapshot.get(name) !== undefined),
        refusals: new Map([...found.refusals, ...answer.refused]),
        by: new Set([...found.by, extender.name]),
      };
    }
    if (span.isRecording()) {
      span.setAttributes({ 'oarlock.nodes': found.tried, 'oarlock.feasible': found.fits.length });
      if (found.refusals.size > 0) span.setAttribute('oarlock.refused', JSON.stringify(Object.fromEntries(countReasons(found.refusals))));
    }
    span.end();
    return found;
  }

  async #noFit({ waiting, profile }: Attempt, cycle: Cycle, found: SearchResult, preempt: boolean): Promise<Failed['failure']> {
    const total = this.#parts.cache.nodes.length;
    const message = unschedulableMessage(total, found.refusals, found.everywhere);
    if (total === 0) return { by: new Set([noNodes]), reason: 'Unschedulable', message, nominated: '' };
    if (found.everywhere?.outcome.code === 'error')
      return { by: new Set(), reason: 'SchedulerError', message: reasonsOf(found.everywhere.outcome), nominated: '' };
    const { more, nominated } = preempt ? await postFilter(profile, cycle, waiting, found) : { more: '' };
    return {
      by: found.by,
      reason: 'Unschedulable',
      message: message + more,
      ...(nominated !== undefined && { nominated }),
    };
  }

  async #choose({ waiting, profile, cause }: Attempt, cycle: Cycle, fits: readonly NodeInfo[], signal: AbortSignal): Promise<NodeInfo> {
    const [only] = fits;
    if (fits.length === 1 && only !== undefined) return only;
    const span = startSpan(this.#parts.tracer, 'score', { cause });
    const totals = score(profile.framework, cycle, waiting, fits);
    for (const extender of this.#parts.extenders) {
      if (!extender.scores || !extender.isInterested(waiting.pod)) continue;
      // upstream goes on without an extender that cannot score
      const added = await extender.prioritize(waiting.pod, fits, signal).catch((error: unknown) => {
        this.#parts.log.warn({ extender: extender.name, err: error }, 'an extender has not scored');
        return new Map<string, number>();
      });
      for (const [index, { name }] of fits.entries()) totals[index] = (totals[index] ?? 0) + (added.get(name) ?? 0);
    }
    let best = 0;
    let equals = 1;
    for (let index = 1; index < totals.length; index++) {
      const value = totals[index] ?? 0;
      if (value > (totals[best] ?? 0)) {
        best = index;
        equals = 1;
      }
      // each of the equals gets the same chance
      else if (value === totals[best] && this.#parts.random() * ++equals < 1) best = index;
    }
    if (span.isRecording()) {
      const top = largest(totals, shownScores);
      span.setAttribute(
        'oarlock.scores',
        JSON.stringify(Object.fromEntries(top.map((index) => [fits[index]?.name, Math.round(totals[index] ?? 0)]))),
      );
    }
    span.end();
    return fits[best] ?? (fits[0] as NodeInfo);
  }

  /** Counts the pod on its node and takes for it what it needs; or who refuses that. */
  async #take(attempt: Attempt, cycle: Cycle, node: string, began: number): Promise<Placed | Refused> {
    const { waiting, profile } = attempt;
    const { framework } = profile;
    const { cache, nominations } = this.#parts;
    cache.assume(waiting, node);
    nominations.delete(waiting.key);
    const reserved = framework.at('reserve').length === 0 ? undefined : await reserve(framework, cycle, waiting, node);
    if (reserved !== undefined && !passes(reserved)) {
      cache.forget(waiting.key);
      return reserved;
    }
    const permitted = framework.at('permit').length === 0 ? undefined : permit(framework, cycle, waiting, node);
    if (permitted !== undefined && 'code' in permitted) {
      unreserve(framework, cycle, waiting, node);
      cache.forget(waiting.key);
      return permitted;
    }
    return { ...attempt, cycle, node, began, holds: permitted };
  }
}

/** Until one plugin has made room. What those say that could not is told with the reasons of the filters. */
async function postFilter(
  { framework }: SchedulingProfile,
  cycle: Cycle,
  pod: PodInfo,
  { refusals }: SearchResult,
): Promise<{ readonly more: string; readonly nominated?: string }> {
  const plugins = framework.at('postFilter');
  if (plugins.length === 0) return { more: '', nominated: '' };
  const said: string[] = [];
  let nominated: string | undefined;
  for (const plugin of plugins) {
    const outcome = await plugin.postFilter?.(cycle, pod, refusals);
    if (outcome === undefined) continue;
    nominated = outcome.nominated ?? nominated;
    if (outcome.code === 'success') return { more: '', ...(nominated !== undefined && { nominated }) };
    if ('reasons' in outcome) said.push(...outcome.reasons);
  }
  return { more: said.length === 0 ? '' : ` ${said.join(', ')}`, ...(nominated !== undefined && { nominated }) };
}

async function orIgnore<T>(extender: Extender, otherwise: T, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (extender.ignorable) return otherwise;
    throw error;
  }
}

/** The places of the `count` largest values, largest first. */
function largest(values: Float64Array, count: number): readonly number[] {
  const top: number[] = [];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] ?? 0;
    if (top.length === count && value <= (values[top[count - 1] ?? 0] ?? 0)) continue;
    let at = top.length;
    while (at > 0 && (values[top[at - 1] ?? 0] ?? 0) < value) at--;
    top.splice(at, 0, index);
    if (top.length > count) top.pop();
  }
  return top;
}
