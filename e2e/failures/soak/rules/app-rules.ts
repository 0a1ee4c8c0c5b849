import { late, Recent, type Rule } from './rule.ts';
import {
  controllerOf,
  isActive,
  isFinished,
  isOver,
  isReady,
  nameOf,
  scaled,
  type CronJob,
  type DaemonSet,
  type Deployment,
  type Job,
  type Pod,
  type ReplicaSet,
  type StatefulSet,
} from '../model/stored-object.ts';

/** The maximum age of the state that a controller acts on: after a cut watch, on a busy machine. */
const staleMs = 20_000;
const suffixOf = (isLate: boolean) => (isLate ? late : '');

/** A rolling update creates no more pods than the surge allows; ReplicaSets create no more than their replicas. */
export function deployments(): Rule {
  const wanted = new Recent<number>(staleMs);
  const reported = new Recent<number>(staleMs);
  return function* ({ now, before, at }, { world, lateLeader }) {
    if (now?.kind === 'Deployment') {
      const { replicas = 1, strategy } = (now as Deployment).spec;
      const surge = strategy?.type === 'Recreate' ? 0 : scaled(strategy?.rollingUpdate?.maxSurge, replicas, true, '25%');
      wanted.note(now.metadata.uid, replicas + surge, at);
    }
    if (now?.kind === 'ReplicaSet') {
      const set = now as ReplicaSet;
      reported.note(set.metadata.uid, set.spec.replicas ?? 1, at);
      const grown = (set.spec.replicas ?? 1) - ((before as ReplicaSet | undefined)?.spec.replicas ?? 0);
      const owner = controllerOf(set);
      if (grown > 0 && owner !== undefined && world.byUid(owner)) {
        const sum = [...world.controlledBy<ReplicaSet>(owner, 'ReplicaSet')].reduce((all, one) => all + (one.spec.replicas ?? 1), 0);
        const most = Math.max(...wanted.of(owner, at));
        if (sum > most)
          yield `${nameOf(set)}: scaled up by ${grown}, and all ReplicaSets of the Deployment have ${sum} pods, more than ${most}${suffixOf(lateLeader)}`;
      }
    }
    if (now?.kind === 'Pod' && !before) {
      const owner = controllerOf(now);
      const set = world.byUid(owner);
      if (owner === undefined || set?.kind !== 'ReplicaSet') return;
      const active = [...world.controlledBy<Pod>(owner, 'Pod')].filter(isActive).length;
      const most = Math.max(...reported.of(owner, at));
      if (active > most) yield `${nameOf(now)}: pod number ${active} of ${nameOf(set)}, which has ${most} replicas${suffixOf(lateLeader)}`;
    }
  };
}

/** No available pod is deleted below the minimum of an update. */
export function availability(): Rule {
  const specs = new Recent<string>(staleMs);
  const losses = new Recent<string>(staleMs);
  const least = (deployment: Deployment) => {
    const { replicas = 1, strategy } = deployment.spec;
    const surge = scaled(strategy?.rollingUpdate?.maxSurge, replicas, true, '25%');
    const unavailable = scaled(strategy?.rollingUpdate?.maxUnavailable, replicas, false, '25%');
    return replicas - (surge === 0 && unavailable === 0 ? 1 : unavailable);
  };
  return function* ({ now, before, at }, { world }) {
    if (now?.kind === 'Deployment' && (now.metadata.generation ?? 0) !== (before?.metadata.generation ?? 0)) {
      const { replicas } = (now as Deployment).spec;
      // this rule applies to rollouts, not to scaling
      if (replicas !== (before as Deployment | undefined)?.spec.replicas) specs.note(now.metadata.uid, String(replicas), at);
    }
    if (before?.kind === 'Pod') {
      const set = world.byUid(controllerOf(before)) as ReplicaSet | undefined;
      if (
        set?.kind === 'ReplicaSet' &&
        isReady(before as Pod) &&
        now &&
        !isReady(now as Pod) &&
        before.metadata.deletionTimestamp === undefined
      )
        losses.note(controllerOf(set) ?? '', before.metadata.name, at);
    }
    if (before?.kind !== 'Pod' || !isReady(before as Pod) || before.metadata.deletionTimestamp !== undefined) return;
    if (now?.metadata.deletionTimestamp === undefined) return;
    const set = world.byUid(controllerOf(now)) as ReplicaSet | undefined;
    const deployment = world.byUid(set && controllerOf(set)) as Deployment | undefined;
    // pods above the replicas were deleted by their ReplicaSet; all others by users, evictions and lost nodes
    if (set?.kind !== 'ReplicaSet' || deployment?.kind !== 'Deployment' || deployment.spec.strategy?.type === 'Recreate') return;
    const active = [...world.controlledBy<Pod>(set.metadata.uid, 'Pod')].filter(isActive).length;
    const { uid } = deployment.metadata;
    if (active < (set.spec.replicas ?? 1)) losses.note(uid, now.metadata.name, at);
    if (at - specs.since(uid) < staleMs || at - losses.since(uid) < staleMs) return;
    const available = [...world.controlledBy<ReplicaSet>(uid, 'ReplicaSet')]
      .flatMap((one) => [...world.controlledBy<Pod>(one.metadata.uid, 'Pod')])
      .filter((pod) => isActive(pod) && isReady(pod)).length;
    if (available < least(deployment))
      yield `${nameOf(now)}: deleted, and ${nameOf(deployment)} has ${available} available of at least ${least(deployment)}`;
  };
}

const ordinalOf = (name: string) => Number(name.slice(name.lastIndexOf('-') + 1));

/** An ordered StatefulSet creates a pod when all lower ordinals are ready. */
export function ordered(): Rule {
  const gone = new Recent<string>(staleMs);
  return function* ({ now, before, at }, { world, lateLeader }) {
    const pod = now ?? before;
    const set = world.byUid(pod && controllerOf(pod)) as StatefulSet | undefined;
    if (pod?.kind !== 'Pod' || set?.kind !== 'StatefulSet' || set.spec.podManagementPolicy === 'Parallel') return;
    if (!now) gone.note(set.metadata.uid, pod.metadata.name, at);
    if (!now || before || at - gone.since(set.metadata.uid) < staleMs) return;
    const there = new Set([...world.controlledBy<Pod>(set.metadata.uid, 'Pod')].map(({ metadata }) => ordinalOf(metadata.name)));
    for (let ordinal = set.spec.ordinals?.start ?? 0; ordinal < ordinalOf(now.metadata.name); ordinal++)
      if (!there.has(ordinal)) yield `${nameOf(now)}: created before ordinal ${ordinal}${suffixOf(lateLeader)}`;
  };
}

/** At most one pod of a DaemonSet on a node, or two while it surges. */
export const daemons: Rule = function* ({ now, before }, { world, lateLeader }) {
  if (now?.kind !== 'Pod') return;
  const { nodeName } = (now as Pod).spec;
  const owner = controllerOf(now);
  const set = world.byUid(owner) as DaemonSet | undefined;
  if (nodeName === undefined || owner === undefined || set?.kind !== 'DaemonSet' || (before as Pod | undefined)?.spec.nodeName === nodeName)
    return;
  const surge = set.spec.updateStrategy?.rollingUpdate?.maxSurge ?? 0;
  const most = surge === 0 || surge === '0%' ? 1 : 2;
  const there = [...world.onNode<Pod>(nodeName)].filter((pod) => controllerOf(pod) === owner && !isOver(pod)).length;
  if (there > most) yield `${nameOf(now)}: the ${there}th of ${nameOf(set)} on ${nodeName}${suffixOf(lateLeader)}`;
};

/** Jobs count each pod once, and create neither too many pods nor any after completion. */
export function jobs(): Rule {
  const ended = { Succeeded: new Map<string, Set<string>>(), Failed: new Map<string, Set<string>>() };
  const parallel = new Recent<number>(staleMs);
  const over = (map: Map<string, Set<string>>, job: string) => map.get(job) ?? map.set(job, new Set()).get(job) ?? new Set<string>();
  return function* ({ now, before, at }, { world, lateLeader }) {
    const pod = (now ?? before) as Pod;
    if (pod.kind === 'Pod') {
      const owner = controllerOf(pod);
      const job = world.byUid(owner) as Job | undefined;
      if (owner === undefined || job?.kind !== 'Job') return;
      const phase = pod.status?.phase;
      if (phase === 'Succeeded') over(ended.Succeeded, owner).add(pod.metadata.uid);
      else if (phase === 'Failed' || now?.metadata.deletionTimestamp !== undefined || !now) over(ended.Failed, owner).add(pod.metadata.uid);
      if (before || !now) return;
      const active = [...world.controlledBy<Pod>(owner, 'Pod')].filter(isActive);
      const most = Math.max(...parallel.of(owner, at));
      if (active.length > most)
        yield `${nameOf(now)}: active pod number ${active.length} of ${nameOf(job)}, of at most ${most}${suffixOf(lateLeader)}`;
      if (isFinished(job)) yield `${nameOf(now)}: made although ${nameOf(job)} is over${suffixOf(lateLeader)}`;
      const index = (one: Pod) => one.metadata.annotations?.['batch.kubernetes.io/job-completion-index'];
      const twin = index(pod) !== undefined && active.find((one) => one.metadata.uid !== pod.metadata.uid && index(one) === index(pod));
      if (twin) yield `${nameOf(now)}: ${nameOf(twin)} has the same index ${index(pod)}${suffixOf(lateLeader)}`;
      return;
    }
    if (now?.kind !== 'Job') return;
    const [job, was] = [now as Job, before as Job | undefined];
    const { uid } = job.metadata;
    const { suspend, parallelism = 1, completions, completionMode } = job.spec;
    parallel.note(uid, suspend ? 0 : parallelism, at);
    const { succeeded = 0, failed = 0 } = job.status ?? {};
    if (succeeded > over(ended.Succeeded, uid).size)
      yield `${nameOf(job)}: counts ${succeeded} succeeded, of ${over(ended.Succeeded, uid).size}`;
    if (failed > over(ended.Failed, uid).size) yield `${nameOf(job)}: counts ${failed} failed, of ${over(ended.Failed, uid).size}`;
    if (completionMode !== 'Indexed' && succeeded < (was?.status?.succeeded ?? 0))
      yield `${nameOf(job)}: counted ${was?.status?.succeeded} succeeded, now ${succeeded}`;
    if (failed < (was?.status?.failed ?? 0)) yield `${nameOf(job)}: counted ${was?.status?.failed} failed, now ${failed}`;
    const ends = (one: Job | undefined) =>
      one?.status?.conditions?.filter(({ type, status }) => status === 'True' && (type === 'Complete' || type === 'Failed')) ?? [];
    if (ends(job).length > 1) yield `${nameOf(job)}: both Complete and Failed`;
    if (ends(was).length === 1 && ends(job)[0]?.type !== ends(was)[0]?.type)
      yield `${nameOf(job)}: was ${ends(was)[0]?.type} and is ${ends(job)[0]?.type ?? 'not'}`;
    if (ends(job)[0]?.type === 'Complete' && ends(was).length === 0) {
      const policy = job.status?.conditions?.some(({ type }) => type === 'SuccessCriteriaMet') === true && 'successPolicy' in job.spec;
      if (!policy && completions !== undefined && succeeded !== completions)
        yield `${nameOf(job)}: Complete with ${succeeded} of ${completions}${suffixOf(lateLeader)}`;
      if ((job.status?.active ?? 0) > 0) yield `${nameOf(job)}: Complete with ${job.status?.active} active`;
    }
  };
}

/** One job at a time if the concurrency policy is Forbid. */
export const cronJobs: Rule = function* ({ now, before }, { world, lateLeader }) {
  if (now?.kind !== 'Job' || before) return;
  const owner = controllerOf(now);
  const cron = world.byUid(owner) as CronJob | undefined;
  if (owner === undefined || cron?.kind !== 'CronJob' || cron.spec.concurrencyPolicy !== 'Forbid') return;
  const active = [...world.controlledBy<Job>(owner, 'Job')].filter((job) => !isFinished(job)).length;
  if (active > 1)
    yield `${nameOf(now)}: active job number ${active} of ${nameOf(cron)}, whose concurrency policy is Forbid${suffixOf(lateLeader)}`;
};
