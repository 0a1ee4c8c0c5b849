import type { PodTeam, TeamOutcome, TeamTrial } from '@oarlock/spi/scheduling';
import type { NodeCache } from './node-cache.ts';
import type { SchedulingProfile } from './profiles.ts';
import type { Failed, Placed, SchedulingCycle } from './scheduling-cycle.ts';
import type { Waiting } from './scheduling-queue.ts';

export interface TeamMember {
  readonly waiting: Waiting;
  readonly profile: SchedulingProfile;
}
export interface TeamResult {
  readonly placed: readonly Placed[];
  readonly refused: readonly Failed[];
}
interface Attempt {
  readonly placed: readonly Placed[];
  readonly failed: readonly Failed[];
  /** Members that have a node, with those that had one before. */
  readonly total: number;
}

/** Places the members of a team one after the other, or none of them. */
export class TeamCycle {
  readonly #team: PodTeam;
  readonly #members: readonly TeamMember[];
  readonly #cycles: SchedulingCycle;
  readonly #cache: NodeCache;
  readonly #signal: AbortSignal;

  constructor(team: PodTeam, members: readonly TeamMember[], cycles: SchedulingCycle, cache: NodeCache, signal: AbortSignal) {
    this.#team = team;
    this.#members = members;
    this.#cycles = cycles;
    this.#cache = cache;
    this.#signal = signal;
  }

  /** When too few members have a node, all is undone, and room is made for the team where it may take that of others. */
  async place(): Promise<TeamResult> {
    const team = this.#team;
    const keep = this.#nominations();
    const { placed, failed, total } = await this.#attempt(false);
    if (total >= team.atLeast) {
      team.settled(total, '');
      return { placed, refused: failed };
    }
    keep();
    const room = this.#members.length === 0 ? undefined : await this.#makeRoom();
    const refused = asOne(team, total, placed, failed, room);
    team.settled(this.#count(), refused[0]?.failure.message ?? '');
    return { placed: [], refused };
  }

  /** What puts back the nominations of the members as they are now; who gets a node has none any more. */
  #nominations(): () => void {
    const { nominations } = this.#cycles;
    const kept = this.#members.flatMap(({ waiting }) => {
      const node = nominations.nodeOf(waiting.key);
      return node === undefined ? [] : [[waiting, node] as const];
    });
    return () => {
      for (const [pod, node] of kept) nominations.set(pod, node);
    };
  }

  #count(): number {
    const { key, has } = this.#team;
    const selection = { key: `team ${key}`, selects: (pod: Waiting['pod']) => has(pod) };
    return [...this.#cache.count(selection).values()].reduce((sum, each) => sum + each, 0);
  }

  /** In each domain in turn, where they have to stay within one; undone when too few have a node, and when it is a trial. */
  async #attempt(trial: boolean): Promise<Attempt> {
    const team = this.#team;
    let last: Attempt = { placed: [], failed: [], total: 0 };
    for (const only of team.domains?.(this.#cache) ?? [undefined]) {
      const [placed, failed]: [Placed[], Failed[]] = [[], []];
      for (const { waiting, profile } of this.#members) {
        const options = { preempt: false, trial, ...(only !== undefined && { only }) };
        const result = await this.#cycles.place(waiting, profile, this.#signal, options);
        if ('failure' in result) failed.push(result);
        else placed.push(result);
      }
      last = { placed, failed, total: this.#count() };
      const enough = last.total >= team.atLeast;
      if (trial || !enough) for (const each of placed.toReversed()) this.#cycles.undo(each);
      if (enough || this.#members.length === 0) break;
    }
    return last;
  }

  async #makeRoom(): Promise<TeamOutcome | undefined> {
    const team = this.#team;
    const lifted = new Set<string>();
    const { nominations } = this.#cycles;
    const keep = this.#nominations();
    const trial: TeamTrial = {
      snapshot: this.#cache,
      members: this.#members.map(({ waiting }) => waiting),
      remove: (pod) => {
        lifted.add(pod.key);
        this.#cache.lift(pod);
      },
      restore: ({ key }) => {
        lifted.delete(key);
        this.#cache.putBack(key);
      },
      nominatedNode: ({ key }) => nominations.nodeOf(key),
      attempt: async () => {
        // their own are no others'
        for (const { waiting } of this.#members) nominations.delete(waiting.key);
        const { placed, total } = await this.#attempt(true);
        return total < team.atLeast ? undefined : new Map(placed.map(({ waiting, node }) => [waiting.key, node]));
      },
    };
    try {
      for (const plugin of this.#members[0]?.profile.framework.at('postFilter') ?? []) {
        const outcome = await plugin.postFilterTeam?.(team, trial);
        if (outcome !== undefined) return outcome;
      }
      return undefined;
    } finally {
      for (const key of lifted) this.#cache.putBack(key);
      keep();
    }
  }
}

/** Who has a node waits for what the others wait for. */
function asOne(
  team: PodTeam,
  total: number,
  placed: readonly Placed[],
  failed: readonly Failed[],
  room: TeamOutcome | undefined,
): readonly Failed[] {
  const by = new Set(failed.flatMap(({ failure }) => [...failure.by]));
  if (room !== undefined) by.add('DefaultPreemption');
  const [first] = failed;
  const more = room !== undefined && 'reasons' in room ? ` ${room.reasons.join(', ')}` : '';
  const message = `${total} of at least ${team.atLeast} pods of the group can be scheduled${first === undefined ? '' : `: ${first.failure.message}`}${more}`;
  const nominated = (key: string) => {
    const node = room?.nominated?.get(key);
    return node === undefined ? {} : { nominated: node };
  };
  return [
    ...failed.map(
      (each): Failed => ({
        ...each,
        failure: { ...each.failure, by, message: `${each.failure.message}${more}`, ...nominated(each.waiting.key) },
      }),
    ),
    ...placed.map(
      ({ waiting, profile, cause }): Failed => ({
        waiting,
        profile,
        cause,
        failure: { by, reason: 'Unschedulable', message, ...nominated(waiting.key) },
      }),
    ),
  ];
}
