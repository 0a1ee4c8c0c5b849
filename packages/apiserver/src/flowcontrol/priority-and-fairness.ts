import { failure, type StatusError } from '@oarlock/api/status';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { RequestInfo } from '../http/request-info.ts';
import { mandatoryPriorityLevels, mandatoryFlowSchemas, suggestedPriorityLevels, suggestedFlowSchemas } from './bootstrap-configuration.ts';
import { flowSchemaMatchers, type FlowSchemaMatcher } from './flow-schemas.ts';
import { PriorityLevel, type Rejection } from './priority-level.ts';
import type { Queue } from './queue-set.ts';
import { fairAllocation } from './work-estimator.ts';

/** The execution seats that one request occupies. */
export interface ExecutionSeat {
  readonly flowSchemaUid: string;
  readonly priorityLevelUid: string;
  /** Releases the seats. Further calls have no effect. */
  release(): void;
}

export interface FlowCounters {
  readonly level: PriorityLevel;
  readonly schema: string;
  executing: number;
  queued: number;
  dispatched: number;
  readonly rejected: Map<Rejection, number>;
}

/** A FlowSchema, and the counters of the requests that match it. */
interface Flow {
  readonly matcher: FlowSchemaMatcher;
  readonly counts: FlowCounters;
}

export interface FlowControlRequest {
  readonly info: RequestInfo;
  readonly identity: Identity;
  /** The estimated work of the request in seats. */
  readonly seats: number;
  /** Returns the signal that cancels the wait. Called only if the request is queued. */
  signal(): AbortSignal;
}

const adjustIntervalMs = 10_000;
const demandSmoothing = 0.977;
const maxCounts = 2_000;
const tooManyRequests = (): StatusError =>
  failure('TooManyRequests', 'Too many requests, please try again later.', { retryAfterSeconds: 1 });

/**
 * API Priority and Fairness (KEP-1040). The first FlowSchema that matches a request determines its priority level. Each level has a share
 * of all execution seats, and can borrow seats that other levels do not need.
 */
export class PriorityAndFairness {
  readonly #clock: Clock;
  readonly #seats: number;
  readonly #waitMs: number;
  #flows: readonly Flow[] = [];
  /** The flows whose subjects include a user. Authenticators return the same object for the requests with the same credentials. */
  #flowsOfUser = new WeakMap<Identity, readonly Flow[]>();
  #levels = new Map<string, PriorityLevel>();
  readonly #counts = new Map<string, FlowCounters>();
  #timer: Timer | undefined;
  /** Called when a request leaves a queue, with its waiting time in seconds and whether it is executed. */
  onQueueWait: ((flow: FlowCounters, executed: boolean, seconds: number) => void) | undefined;

  /**
   * Creates the flow control.
   * @param seats the execution seats of all levels together
   * @param waitMs the maximum time of a request in a queue
   */
  constructor(seats: number, waitMs: number, clock: Clock) {
    this.#clock = clock;
    this.#seats = seats;
    this.#waitMs = waitMs;
    this.configure([...mandatoryFlowSchemas, ...suggestedFlowSchemas], [...mandatoryPriorityLevels, ...suggestedPriorityLevels]);
  }

  get levels(): Iterable<PriorityLevel> {
    return this.#levels.values();
  }
  get counts(): Iterable<FlowCounters> {
    return this.#counts.values();
  }

  /** Replaces the configuration. Absent mandatory objects are added. A FlowSchema whose priority level does not exist matches no request. */
  configure(schemas: readonly FlowSchema[], levels: readonly PriorityLevelConfiguration[]): void {
    const configured = new Map([...mandatoryPriorityLevels, ...levels].map((level) => [level.metadata?.name ?? '', level]));
    const before = this.#levels;
    this.#levels = new Map(
      [...configured].map(([name, configuration]) => {
        const known = before.get(name);
        known?.configure(configuration);
        return [name, known ?? new PriorityLevel(configuration, this.#clock)];
      }),
    );
    const shares = [...this.#levels.values()].reduce((sum, level) => sum + level.shares, 0);
    for (const level of this.#levels.values()) level.setNominalLimit(shares === 0 ? 0 : Math.ceil((this.#seats * level.shares) / shares));
    // a removed level still dispatches the requests in its queues
    for (const [name, level] of before) if (!this.#levels.has(name)) level.setCurrentLimit(Math.max(1, level.currentLimit));
    const named = new Map([...mandatoryFlowSchemas, ...schemas].map((schema) => [schema.metadata?.name ?? '', schema]));
    this.#flows = flowSchemaMatchers(named.values()).flatMap((matcher) => {
      const level = this.#levels.get(matcher.level);
      return level === undefined ? [] : [{ matcher, counts: this.#countsOf(level, matcher.name) }];
    });
    this.#flowsOfUser = new WeakMap();
  }

  start(): void {
    this.#timer = this.#clock.after(adjustIntervalMs, () => {
      this.adjustConcurrencyLimits();
      this.start();
    });
  }
  stop(): void {
    this.#timer?.cancel();
  }

  /**
   * Acquires execution seats for a request. Returns a promise only if the request is queued.
   * @throws StatusError `TooManyRequests` if the request is rejected
   */
  acquire(request: FlowControlRequest): ExecutionSeat | Promise<ExecutionSeat> {
    const { info, identity } = request;
    for (const { matcher, counts } of this.#flowsOf(identity))
      if (matcher.matches(info, identity)) return this.#acquireFrom(matcher, counts, request);
    // every user is in a group of the schema catch-all, so that only an identity without groups gets here
    throw tooManyRequests();
  }

  #flowsOf(identity: Identity): readonly Flow[] {
    let flows = this.#flowsOfUser.get(identity);
    if (flows === undefined) this.#flowsOfUser.set(identity, (flows = this.#flows.filter(({ matcher }) => matcher.includes(identity))));
    return flows;
  }

  #acquireFrom(
    matcher: FlowSchemaMatcher,
    counts: FlowCounters,
    { info, identity, seats, signal }: FlowControlRequest,
  ): ExecutionSeat | Promise<ExecutionSeat> {
    const { level } = counts;
    const flow = () =>
      `${matcher.name}/${matcher.by === 'user' ? identity.name : matcher.by === 'namespace' && info.kind === 'resource' ? info.namespace : ''}`;
    const acquired = level.acquire(seats, { flow, waitMs: this.#waitMs, signal });
    if (acquired === undefined) return this.#executionSeat(matcher, { counts, seats, queue: undefined });
    if (typeof acquired === 'string') throw this.#rejected(counts, acquired);
    if (!(acquired instanceof Promise)) return this.#executionSeat(matcher, { counts, seats, queue: acquired });
    counts.queued += 1;
    const since = this.#clock.monotonic();
    return acquired.then((queue) => {
      counts.queued -= 1;
      this.onQueueWait?.(counts, typeof queue !== 'string', (this.#clock.monotonic() - since) / 1000);
      if (typeof queue === 'string') throw this.#rejected(counts, queue);
      return this.#executionSeat(matcher, { counts, seats, queue });
    });
  }

  #executionSeat(
    { uid }: FlowSchemaMatcher,
    { counts, seats, queue }: { readonly counts: FlowCounters; readonly seats: number; readonly queue: Queue | undefined },
  ): ExecutionSeat {
    const clock = this.#clock;
    const began = clock.monotonic();
    const { level } = counts;
    let held = true;
    counts.executing += 1;
    counts.dispatched += 1;
    return {
      flowSchemaUid: uid,
      priorityLevelUid: level.uid,
      release() {
        if (!held) return;
        held = false;
        counts.executing -= 1;
        level.release(seats, queue, (clock.monotonic() - began) / 1000);
      },
    };
  }

  #rejected(counts: FlowCounters, reason: Rejection): StatusError {
    counts.rejected.set(reason, (counts.rejected.get(reason) ?? 0) + 1);
    return tooManyRequests();
  }

  /** Recomputes the seat limits of all priority levels from their demand: levels lend the seats that they did not need. */
  adjustConcurrencyLimits(): void {
    const levels = [...this.#levels.values()];
    const limited = levels.filter(({ exempt }) => !exempt);
    const claims = limited.map((level) => {
      const { average, deviation, high } = level.resetDemand();
      const envelope = average + deviation;
      level.smoothDemand = Math.max(envelope, demandSmoothing * level.smoothDemand + (1 - demandSmoothing) * envelope);
      const lowerBound = Math.max(level.minLimit, Math.min(level.nominalLimit, high));
      return { lowerBound, upperBound: Math.max(level.maxLimit, lowerBound), target: Math.max(lowerBound, level.smoothDemand) };
    });
    const total = Math.max(
      this.#seats,
      claims.reduce((sum, claim) => sum + claim.lowerBound, 0),
    );
    const shares = fairAllocation(total, claims);
    for (const [i, level] of limited.entries()) level.setCurrentLimit(Math.max(1, shares[i] ?? 1));
  }

  #countsOf(level: PriorityLevel, schema: string): FlowCounters {
    const key = `${level.name}/${schema}`;
    let counts = this.#counts.get(key);
    if (counts === undefined || counts.level !== level) {
      counts = { level, schema, executing: 0, queued: 0, dispatched: 0, rejected: new Map() };
      if (this.#counts.size < maxCounts) this.#counts.set(key, counts);
    }
    return counts;
  }
}
