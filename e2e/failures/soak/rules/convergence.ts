import { orphans } from './object-rules.ts';
import {
  isFinished,
  isLeaving,
  isOver,
  isReady,
  nameOf,
  type DaemonSet,
  type Deployment,
  type Job,
  type Node,
  type Pod,
  type StatefulSet,
  controllerOf,
  isTrue,
} from '../model/stored-object.ts';
import type { ObjectIndex } from '../model/object-index.ts';

const observed = ({
  metadata,
  status,
}: {
  readonly metadata: { readonly generation?: number };
  readonly status?: { readonly observedGeneration?: number };
}) => (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);

/** Describes what has not converged to its desired state; empty if all has. */
export function* convergenceFailures(world: ObjectIndex): Iterable<string> {
  for (const node of world.kind<Node>('Node')) if (!isTrue(node.status?.conditions, 'Ready')) yield `${nameOf(node)}: not ready`;
  yield* orphans(world);
  for (const pod of world.kind<Pod>('Pod')) {
    const owner = world.byUid(controllerOf(pod))?.kind;
    if (owner !== 'Job' && !isOver(pod) && !isReady(pod) && !isFull(pod))
      yield `${nameOf(pod)}: ${pod.status?.phase} on ${pod.spec.nodeName} and not ready`;
    if (isOver(pod) && pod.metadata.finalizers?.includes('batch.kubernetes.io/job-tracking'))
      yield `${nameOf(pod)}: finished and not counted`;
  }
  // a workload whose namespace has a quota may have fewer pods
  const free = (thing: { readonly metadata: { readonly namespace?: string } }) => thing.metadata.namespace !== 'soak-quota';
  for (const each of world.kind<Deployment>('Deployment')) {
    const { replicas = 0, updatedReplicas = 0, availableReplicas = 0, readyReplicas = 0 } = each.status ?? {};
    if (!observed(each)) yield `${nameOf(each)}: not observed`;
    if (free(each) && [replicas, updatedReplicas, availableReplicas, readyReplicas].some((count) => count !== (each.spec.replicas ?? 1)))
      yield `${nameOf(each)}: ${each.spec.replicas} wanted: ${JSON.stringify({ replicas, updatedReplicas, availableReplicas, readyReplicas })}`;
  }
  for (const each of world.kind<StatefulSet>('StatefulSet')) {
    const { replicas = 0, readyReplicas = 0, currentRevision, updateRevision } = each.status ?? {};
    if (!observed(each)) yield `${nameOf(each)}: not observed`;
    if (free(each) && (replicas !== (each.spec.replicas ?? 1) || readyReplicas !== replicas || currentRevision !== updateRevision))
      yield `${nameOf(each)}: ${each.spec.replicas} wanted: ${JSON.stringify(each.status)}`;
    yield* claims(each, world);
  }
  for (const each of world.kind<DaemonSet>('DaemonSet')) {
    const { desiredNumberScheduled = 0, numberReady = 0, numberMisscheduled = 0 } = each.status ?? {};
    if (!observed(each)) yield `${nameOf(each)}: not observed`;
    if (free(each) && (desiredNumberScheduled !== numberReady || numberMisscheduled !== 0))
      yield `${nameOf(each)}: ${JSON.stringify(each.status)}`;
  }
  for (const each of world.kind<Job>('Job')) {
    if (free(each) && !isFinished(each) && each.spec.parallelism !== 0 && !each.spec.suspend)
      yield `${nameOf(each)}: not over: ${JSON.stringify(each.status)}`;
    if (isFinished(each) && each.spec.ttlSecondsAfterFinished !== undefined)
      yield `${nameOf(each)}: finished, and not deleted ${each.spec.ttlSecondsAfterFinished} s later`;
  }
}

/** True if the pod is unschedulable for lack of capacity, which is no violation. */
const isFull = (pod: Pod) =>
  pod.spec.nodeName === undefined && pod.status?.conditions?.some(({ reason }) => reason === 'Unschedulable') === true;

/** Claims of removed ordinals are kept or deleted, as the set's policy specifies. */
function* claims(set: StatefulSet, world: ObjectIndex): Iterable<string> {
  if (set.spec.persistentVolumeClaimRetentionPolicy?.whenScaled !== 'Delete') return;
  const [start, { name }] = [set.spec.ordinals?.start ?? 0, set.metadata];
  for (const claim of world.kind('PersistentVolumeClaim', set.metadata.namespace)) {
    const ordinal = new RegExp(`^data-${name}-(\\d+)$`).exec(claim.metadata.name)?.[1];
    if (ordinal !== undefined && (Number(ordinal) >= start + (set.spec.replicas ?? 1) || Number(ordinal) < start) && !isLeaving(claim))
      yield `${nameOf(claim)}: the set ${name} has ${set.spec.replicas} replicas from ${start}, and deletes claims of other ordinals`;
  }
}
