import { jsonEqual } from '@oarlock/api/json/json';
import type { PodCondition, PodStatus } from '@oarlock/api/types/core-v1';
import { removableConditions } from './pod-conditions.ts';

type Fields = Record<string, unknown>;

/** The status fields that the kubelet owns, except conditions and addresses. */
const plainFields = [
  'phase',
  'reason',
  'message',
  'hostIP',
  'podIP',
  'startTime',
  'qosClass',
  'initContainerStatuses',
  'containerStatuses',
  'ephemeralContainerStatuses',
  'allocatedResources',
  'resources',
  'observedGeneration',
] as const satisfies readonly (keyof PodStatus)[];

const sameCondition = (a: PodCondition, b: PodCondition | undefined) =>
  b !== undefined &&
  a.status === b.status &&
  a.reason === b.reason &&
  a.message === b.message &&
  a.lastTransitionTime === b.lastTransitionTime &&
  (a.observedGeneration === undefined || a.observedGeneration === b.observedGeneration);

/** Returns the patch of a list with the merge key `ip`. Each removed entry needs a `$patch: delete` directive. */
function addresses(
  before: readonly { readonly ip: string }[] = [],
  after: readonly { readonly ip: string }[] = [],
): readonly Fields[] | undefined {
  if (jsonEqual(before, after)) return undefined;
  const gone = before.filter(({ ip }) => !after.some((other) => other.ip === ip));
  return [...after.map(({ ip }) => ({ ip })), ...gone.map(({ ip }) => ({ $patch: 'delete', ip }))];
}

/**
 * Returns the strategic merge patch from the status in the API to the kubelet's status; undefined if they are equal. The patch does not change the
 * conditions of other components.
 */
export function statusPatch(
  uid: string,
  before: PodStatus | undefined,
  after: PodStatus,
): { readonly metadata: { readonly uid: string }; readonly status: Fields } | undefined {
  const status: Fields = {};
  for (const field of plainFields) {
    if (!jsonEqual(before?.[field], after[field])) status[field] = after[field] ?? null;
  }
  const podIPs = addresses(before?.podIPs, after.podIPs);
  if (podIPs) status['podIPs'] = podIPs;
  const hostIPs = addresses(before?.hostIPs, after.hostIPs);
  if (hostIPs) status['hostIPs'] = hostIPs;
  const conditions = (after.conditions ?? []).filter(
    (condition) =>
      !sameCondition(
        condition,
        before?.conditions?.find(({ type }) => type === condition.type),
      ),
  );
  const over = (before?.conditions ?? []).filter(
    ({ type }) => removableConditions.has(type) && after.conditions?.some((condition) => condition.type === type) !== true,
  );
  if (conditions.length + over.length > 0) {
    // a removed reason or message must be deleted from the merged condition
    const changed = conditions.map((condition) => {
      const old = before?.conditions?.find(({ type }) => type === condition.type);
      return {
        ...condition,
        ...(old?.reason !== undefined && condition.reason === undefined && { reason: null }),
        ...(old?.message !== undefined && condition.message === undefined && { message: null }),
      };
    });
    status['conditions'] = [...changed, ...over.map(({ type }) => ({ $patch: 'delete', type }))];
  }
  return Object.keys(status).length === 0 ? undefined : { metadata: { uid }, status };
}
