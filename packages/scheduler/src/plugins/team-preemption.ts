import type { PodInfo, TeamPreemption, TeamTrial } from '@oarlock/spi/scheduling';
import { unresolvable, unschedulable, type Outcome } from '@oarlock/spi/scheduling';
import { priorityOf } from '../nominations.ts';
import { byBudget, startOf, type Budgets } from './preemption-candidates.ts';

/** What is lost together: a pod, or all pods of a team. */
interface Unit {
  readonly priority: number;
  readonly team: boolean;
  readonly pods: PodInfo[];
}

/** Whose loss makes room for a team, the most important first, and which node each of its members gets then. */
export interface TeamRoom {
  readonly victims: readonly PodInfo[];
  readonly nominated: ReadonlyMap<string, string>;
}

const earliest = ({ pods }: Unit) => pods.reduce((least, pod) => Math.min(least, startOf(pod)), Number.POSITIVE_INFINITY);

/** More priority first, then teams before single pods, larger teams first, then who runs longer (KEP-5710). */
const byImportance = (a: Unit, b: Unit): number => {
  if (a.priority !== b.priority) return b.priority - a.priority;
  if (a.team !== b.team) return a.team ? -1 : 1;
  if (a.team && a.pods.length !== b.pods.length) return b.pods.length - a.pods.length;
  const [x, y] = [earliest(a), earliest(b)];
  return x === y ? 0 : x - y;
};

function unitsOf({ snapshot }: TeamTrial, { priority, teamOf }: TeamPreemption): readonly Unit[] {
  const singles: Unit[] = [];
  const teams = new Map<string, Unit>();
  for (const { pods } of snapshot.nodes)
    for (const pod of pods) {
      const of = teamOf(pod.pod);
      // how much the pods themselves matter says nothing where they are of a team
      const own = of?.priority ?? priorityOf(pod);
      if (own >= priority) continue;
      if (of?.together !== true) {
        singles.push({ priority: own, team: false, pods: [pod] });
        continue;
      }
      const team = teams.get(of.key);
      if (team === undefined) teams.set(of.key, { priority: own, team: true, pods: [pod] });
      else team.pods.push(pod);
    }
  return [...teams.values(), ...singles].sort(byImportance);
}

/**
 * As little as is to be lost for the team to fit: without all that matters less than the team, as much is put back as leaves it as many nodes, what
 * budgets protect and what matters most first. Put back by halves: mostly few have to go, and each attempt places the whole team.
 */
export async function makeTeamRoom(preemption: TeamPreemption, trial: TeamTrial, budgets: Budgets): Promise<TeamRoom | Outcome> {
  const units = unitsOf(trial, preemption);
  if (units.length === 0) return unresolvable('No preemption victims found for incoming preemptor');
  for (const { pods } of units) for (const pod of pods) trial.remove(pod);
  let nominated = await trial.attempt();
  if (nominated === undefined) return unschedulable('Preemption is not helpful for scheduling');
  /** Returns those that cannot be put back. */
  const spare = async (some: readonly Unit[]): Promise<readonly Unit[]> => {
    if (some.length === 0) return [];
    for (const { pods } of some) for (const pod of pods) trial.restore(pod);
    const found = await trial.attempt();
    if (found !== undefined && found.size >= (nominated?.size ?? 0)) {
      nominated = found;
      return [];
    }
    for (const { pods } of some) for (const pod of pods) trial.remove(pod);
    if (some.length === 1) return some;
    const half = Math.ceil(some.length / 2);
    return [...(await spare(some.slice(0, half))), ...(await spare(some.slice(half)))];
  };
  const { violating, free } = byBudget(units, ({ pods }) => pods, budgets);
  const lost = [...(await spare(violating)), ...(await spare(free))].sort(byImportance);
  return { victims: lost.flatMap(({ pods }) => pods), nominated };
}
