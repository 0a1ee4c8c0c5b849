import { invalid } from '../../field/field-error.ts';
import type { DaemonSet } from '../../generated/types/apps-v1.ts';
import { validateNonNegative, type Errors } from './checks.ts';

interface Counts {
  readonly replicas?: number;
  readonly fullyLabeledReplicas?: number;
  readonly currentReplicas?: number;
  readonly updatedReplicas?: number;
  readonly readyReplicas?: number;
  readonly availableReplicas?: number;
  readonly unavailableReplicas?: number;
  readonly observedGeneration?: number;
  readonly collisionCount?: number;
}

const counts = [
  'observedGeneration',
  'replicas',
  'fullyLabeledReplicas',
  'currentReplicas',
  'updatedReplicas',
  'readyReplicas',
  'availableReplicas',
  'unavailableReplicas',
  'collisionCount',
] as const;

/** The status of a workload and that of the stored object, and the name of the ready replicas in an error. */
interface StatusUpdate {
  readonly status: Counts | undefined;
  readonly old: Counts | undefined;
  readonly ready?: string;
}

/** Validates the status of Deployments, ReplicaSets, StatefulSets and ReplicationControllers. */
export function validateReplicaStatus(errors: Errors, { status = {}, old = {}, ready = 'readyReplicas' }: StatusUpdate): void {
  for (const key of counts) validateNonNegative(errors, `status.${key}`, status[key]);
  const { replicas = 0, readyReplicas = 0, availableReplicas = 0 } = status;
  for (const key of ['fullyLabeledReplicas', 'readyReplicas', 'currentReplicas', 'updatedReplicas', 'availableReplicas'] as const) {
    if ((status[key] ?? 0) > replicas) errors.push(invalid(`status.${key}`, status[key], 'cannot be greater than status.replicas'));
  }
  if (availableReplicas > readyReplicas)
    errors.push(invalid('status.availableReplicas', availableReplicas, `cannot be greater than ${ready}`));
  validateCollisionCount(errors, status.collisionCount, old.collisionCount);
}

function validateCollisionCount(errors: Errors, count: number | undefined, old: number | undefined): void {
  if (old !== undefined && (count === undefined || count < old))
    errors.push(invalid('status.collisionCount', count ?? 0, 'cannot be decremented'));
}

export function validateDaemonSetStatus(errors: Errors, { status }: DaemonSet, old: DaemonSet): void {
  for (const key of [
    'currentNumberScheduled',
    'numberMisscheduled',
    'desiredNumberScheduled',
    'numberReady',
    'observedGeneration',
    'updatedNumberScheduled',
    'numberAvailable',
    'numberUnavailable',
    'collisionCount',
  ] as const)
    validateNonNegative(errors, `status.${key}`, status?.[key]);
  validateCollisionCount(errors, status?.collisionCount, old.status?.collisionCount);
}
