import type { PodTeam } from '@oarlock/spi/scheduling';
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

/**
 * Places the members of a team one after the other; when too few of them have a node then, all is undone. Where they have to stay within
 * one domain, the domains are tried in turn. No room is made for them by preemption.
 */
export async function placeTeam(
  team: PodTeam,
  members: readonly TeamMember[],
  cycles: SchedulingCycle,
  cache: NodeCache,
  signal: AbortSignal,
): Promise<TeamResult> {
  const selection = { key: `team ${team.key}`, selects: (pod: Waiting['pod']) => team.has(pod) };
  const count = () => [...cache.count(selection).values()].reduce((sum, each) => sum + each, 0);
  let refused: readonly Failed[] = [];
  for (const only of team.domains?.(cache) ?? [undefined]) {
    const placed: Placed[] = [];
    const failed: Failed[] = [];
    for (const { waiting, profile } of members) {
      const result = await cycles.place(waiting, profile, signal, { preempt: false, ...(only !== undefined && { only }) });
      if ('failure' in result) failed.push(result);
      else placed.push(result);
    }
    const total = count();
    if (total >= team.atLeast) {
      team.settled(total, '');
      return { placed, refused: failed };
    }
    for (const each of placed.toReversed()) cycles.undo(each);
    refused = asOne(team, total, placed, failed);
    if (members.length === 0) break;
  }
  team.settled(count(), refused[0]?.failure.message ?? '');
  return { placed: [], refused };
}

/** Who has a node waits for what the others wait for. */
function asOne(team: PodTeam, total: number, placed: readonly Placed[], failed: readonly Failed[]): readonly Failed[] {
  const by = new Set(failed.flatMap(({ failure }) => [...failure.by]));
  const [first] = failed;
  const message = `${total} of at least ${team.atLeast} pods of the group can be scheduled${first === undefined ? '' : `: ${first.failure.message}`}`;
  return [
    ...failed.map((each): Failed => ({ ...each, failure: { ...each.failure, by } })),
    ...placed.map(
      ({ waiting, profile, cause }): Failed => ({ waiting, profile, cause, failure: { by, reason: 'Unschedulable', message } }),
    ),
  ];
}
