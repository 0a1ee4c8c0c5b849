import { failure, type StatusError } from '@oarlock/api/status';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { RequestInfo } from '../http-request-info.ts';
import { mandatoryLevels, mandatorySchemas, suggestedLevels, suggestedSchemas } from './defaults.ts';
import { matchersOf, type Matcher } from './flow-schemas.ts';
import { PriorityLevel, type Queue, type Rejection } from './priority-level.ts';
import { shareOut } from './seats.ts';

/** A place among the requests that are worked on. */
export interface Place {
  readonly schemaUid: string;
  readonly levelUid: string;
  /** Gives it back; more than once does nothing. */
  leave(): void;
}

export interface FlowCounts {
  readonly level: PriorityLevel;
  readonly schema: string;
  executing: number;
  queued: number;
  dispatched: number;
  readonly rejected: Map<Rejection, number>;
}

export interface Entering {
  readonly info: RequestInfo;
  readonly identity: Identity;
  /** How much work it is, in seats. */
  readonly seats: number;
  /** Asked for only when the request has to wait. */
  signal(): AbortSignal;
}

const adjustMs = 10_000;
const smoothing = 0.977;
const maxCounts = 2_000;
const tooMany = (): StatusError => failure('TooManyRequests', 'Too many requests, please try again later.', { retryAfterSeconds: 1 });

/**
 * Who may be worked for, in which order (API priority and fairness, KEP-1040): a request belongs to the first FlowSchema that it matches,
 * and so to a priority level, which has a share of all seats; those that a level does not need others may borrow.
 */
export class PriorityAndFairness {
  readonly #clock: Clock;
  readonly #seats: number;
  readonly #waitMs: number;
  #matchers: readonly (readonly [Matcher, FlowCounts])[] = [];
  #levels = new Map<string, PriorityLevel>();
  readonly #counts = new Map<string, FlowCounts>();
  #timer: Timer | undefined;
  /** Told how many seconds a request has waited in a queue, and whether it was worked on then. */
  onWaited: ((flow: FlowCounts, executed: boolean, seconds: number) => void) | undefined;

  /** `seats` is how much is worked on at a time; nobody waits longer than `waitMs`. */
  constructor(seats: number, waitMs: number, clock: Clock) {
    this.#clock = clock;
    this.#seats = seats;
    this.#waitMs = waitMs;
    this.configure([...mandatorySchemas, ...suggestedSchemas], [...mandatoryLevels, ...suggestedLevels]);
  }

  get levels(): Iterable<PriorityLevel> {
    return this.#levels.values();
  }
  get counts(): Iterable<FlowCounts> {
    return this.#counts.values();
  }

  /** From now on these objects count. Schemas whose level is not there match nothing; the mandatory ones are always there. */
  configure(schemas: readonly FlowSchema[], levels: readonly PriorityLevelConfiguration[]): void {
    const wanted = new Map([...mandatoryLevels, ...levels].map((level) => [level.metadata?.name ?? '', level]));
    const before = this.#levels;
    this.#levels = new Map(
      [...wanted].map(([name, configuration]) => {
        const known = before.get(name);
        known?.configure(configuration);
        return [name, known ?? new PriorityLevel(configuration, this.#clock)];
      }),
    );
    const shares = [...this.#levels.values()].reduce((sum, level) => sum + level.shares, 0);
    for (const level of this.#levels.values()) level.setNominal(shares === 0 ? 0 : Math.ceil((this.#seats * level.shares) / shares));
    // one that goes serves those that it has
    for (const [name, level] of before) if (!this.#levels.has(name)) level.setLimit(Math.max(1, level.limit));
    const named = new Map([...mandatorySchemas, ...schemas].map((schema) => [schema.metadata?.name ?? '', schema]));
    this.#matchers = matchersOf(named.values()).flatMap((matcher) => {
      const level = this.#levels.get(matcher.level);
      return level === undefined ? [] : [[matcher, this.#countsOf(level, matcher.name)] as const];
    });
  }

  start(): void {
    this.#timer = this.#clock.after(adjustMs, () => {
      this.adjust();
      this.start();
    });
  }
  stop(): void {
    this.#timer?.cancel();
  }

  /** Takes a place, at once where there is one. @throws StatusError `TooManyRequests` */
  enter(entering: Entering): Place | Promise<Place> {
    const { info, identity } = entering;
    for (const [matcher, counts] of this.#matchers) if (matcher.matches(info, identity)) return this.#enter(matcher, counts, entering);
    throw tooMany(); // only who is in neither of the groups that everybody is in
  }

  #enter(matcher: Matcher, counts: FlowCounts, { info, identity, seats, signal }: Entering): Place | Promise<Place> {
    const { level } = counts;
    const flow = () =>
      `${matcher.name}/${matcher.by === 'user' ? identity.name : matcher.by === 'namespace' && info.kind === 'resource' ? info.namespace : ''}`;
    const entered = level.enter(seats, flow, this.#waitMs, signal);
    if (entered === undefined) return this.#place(matcher, counts, seats, undefined);
    if (typeof entered === 'string') throw this.#rejected(counts, entered);
    if (!(entered instanceof Promise)) return this.#place(matcher, counts, seats, entered);
    counts.queued += 1;
    const since = this.#clock.monotonic();
    return entered.then((queue) => {
      counts.queued -= 1;
      this.onWaited?.(counts, typeof queue !== 'string', (this.#clock.monotonic() - since) / 1000);
      if (typeof queue === 'string') throw this.#rejected(counts, queue);
      return this.#place(matcher, counts, seats, queue);
    });
  }

  #place({ uid }: Matcher, counts: FlowCounts, seats: number, queue: Queue | undefined): Place {
    const clock = this.#clock;
    const began = clock.monotonic();
    const { level } = counts;
    let held = true;
    counts.executing += 1;
    counts.dispatched += 1;
    return {
      schemaUid: uid,
      levelUid: level.uid,
      leave() {
        if (!held) return;
        held = false;
        counts.executing -= 1;
        level.leave(seats, queue, (clock.monotonic() - began) / 1000);
      },
    };
  }

  #rejected(counts: FlowCounts, why: Rejection): StatusError {
    counts.rejected.set(why, (counts.rejected.get(why) ?? 0) + 1);
    return tooMany();
  }

  /** Moves seats from levels that did not need theirs to those that could have used more. */
  adjust(): void {
    const levels = [...this.#levels.values()];
    const limited = levels.filter(({ exempt }) => !exempt);
    const claims = limited.map((level) => {
      const { average, deviation, high } = level.takeDemand();
      const envelope = average + deviation;
      level.smoothDemand = Math.max(envelope, smoothing * level.smoothDemand + (1 - smoothing) * envelope);
      const least = Math.max(level.least, Math.min(level.nominal, high));
      return { least, most: Math.max(level.most, least), target: Math.max(least, level.smoothDemand) };
    });
    const total = Math.max(
      this.#seats,
      claims.reduce((sum, { least }) => sum + least, 0),
    );
    const shares = shareOut(total, claims);
    for (const [i, level] of limited.entries()) level.setLimit(Math.max(1, shares[i] ?? 1));
  }

  #countsOf(level: PriorityLevel, schema: string): FlowCounts {
    const key = `${level.name}/${schema}`;
    let counts = this.#counts.get(key);
    if (counts === undefined || counts.level !== level) {
      counts = { level, schema, executing: 0, queued: 0, dispatched: 0, rejected: new Map() };
      if (this.#counts.size < maxCounts) this.#counts.set(key, counts);
    }
    return counts;
  }
}
