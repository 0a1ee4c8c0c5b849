import { qosClass } from '@oarlock/api/pod-qos';
import { formatTime } from '@oarlock/api/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { containerStatuses, type StatusSources } from './container-status.ts';
import { isHostNetwork, isTerminalPhase } from './pods.ts';
import { podConditions } from './pod-conditions.ts';
import type { ResizeReport } from './pod-resize.ts';
import { podPhase, type PodPhase } from './pod-phase.ts';

export interface PodStatusSources extends StatusSources {
  readonly hostIPs: readonly string[];
  readonly now: number;
  /** All containers are being ended, to be started anew. */
  readonly restarting?: boolean;
  /** When the kubelet first saw the pod. */
  readonly startedAt: number;
  /** What is told of resizes; absent when there never was one. */
  readonly resize?: (NonNullable<StatusSources['resize']> & { readonly report: ResizeReport }) | undefined;
  /** Set when the kubelet itself ended the pod: `DeadlineExceeded`, `OutOfcpu`. The pod has failed then. */
  readonly verdict?: { readonly reason: string; readonly message: string; readonly disrupts?: boolean } | undefined;
}

const none: readonly never[] = [];

/** The status of a pod as the kubelet reports it. Pure. Conditions that others write are not in it. */
export function podStatus(pod: Pod, sources: PodStatusSources): PodStatus {
  const { before, hostIPs, now, startedAt, ended, verdict, state } = sources;
  const { initContainers = none, containers = none, ephemeralContainers = none } = pod.spec ?? {};
  const init = containerStatuses(pod, 'init', initContainers, sources);
  const regular = containerStatuses(pod, 'regular', containers, sources);
  const ephemeral = containerStatuses(pod, 'ephemeral', ephemeralContainers, sources);
  const phase = phaseOf(
    pod,
    before,
    verdict !== undefined ? 'Failed' : sources.restarting === true ? 'Pending' : podPhase(pod, init, regular, ended),
  );
  const podIPs = isHostNetwork(pod) ? (state.sandboxes.length > 0 ? hostIPs : none) : state.podIPs;
  // a pod keeps the address it had: it explains logs of others
  const ips = podIPs.length > 0 ? podIPs.map((ip) => ({ ip })) : (before?.podIPs ?? none);
  const { generation } = pod.metadata ?? {};
  return {
    phase,
    conditions: podConditions(pod, {
      init,
      regular,
      phase,
      restarting: sources.restarting === true,
      resize: sources.resize?.report,
      disruption: verdict?.disrupts === true ? verdict.message : undefined,
      sandboxReady: state.readySandbox !== undefined && podIPs.length > 0,
      before: before?.conditions ?? none,
      now: formatTime(now),
    }),
    ...(verdict && { reason: verdict.reason, message: verdict.message }),
    ...(!verdict &&
      before?.reason !== undefined &&
      isTerminalPhase(before.phase) && { reason: before.reason, ...(before.message !== undefined && { message: before.message }) }),
    ...(hostIPs[0] !== undefined && { hostIP: hostIPs[0], hostIPs: hostIPs.map((ip) => ({ ip })) }),
    ...(ips[0] !== undefined && { podIP: ips[0].ip, podIPs: ips }),
    startTime: before?.startTime ?? formatTime(startedAt),
    ...(init.length > 0 && { initContainerStatuses: init }),
    containerStatuses: regular,
    ...(ephemeral.length > 0 && { ephemeralContainerStatuses: ephemeral }),
    ...wholeResources(pod, sources),
    qosClass: before?.qosClass ?? qosClass(pod.spec),
    ...(generation !== undefined && { observedGeneration: generation }),
  };
}

/** What a pod that asks as a whole was given, and has (KEP-5419). */
function wholeResources({ spec }: Pod, { resize, before, ended }: PodStatusSources): Pick<PodStatus, 'allocatedResources' | 'resources'> {
  if (!spec?.resources) return {};
  const resources = ended ? before?.resources : (resize?.hasWhole ?? spec.resources);
  return {
    ...(spec.resources.requests && { allocatedResources: spec.resources.requests }),
    ...(resources && { resources }),
  };
}

/** A phase that has ended a pod is final. */
function phaseOf(pod: Pod, before: PodStatus | undefined, computed: PodPhase): PodPhase {
  for (const phase of [before?.phase, pod.status?.phase]) if (phase === 'Succeeded' || phase === 'Failed') return phase;
  return computed;
}
