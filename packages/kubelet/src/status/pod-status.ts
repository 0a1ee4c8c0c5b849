import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { generateContainerStatuses, type ContainerStatusInputs } from './container-status.ts';
import { isHostNetwork, isTerminalPhase } from '../pod-util/pods.ts';
import { generatePodConditions } from './pod-conditions.ts';
import type { ResizeStatus } from '../pod-util/resize-status.ts';
import { computePodPhase, type PodPhase } from './pod-phase.ts';

export interface PodStatusInputs extends ContainerStatusInputs {
  readonly hostIPs: readonly string[];
  readonly now: number;
  /** True while all containers are terminated to restart them. */
  readonly restarting?: boolean;
  /** The time when the kubelet first saw the pod. */
  readonly startedAt: number;
  /** The pod's resize state; undefined if the pod was never resized. */
  readonly resize?: (NonNullable<ContainerStatusInputs['resize']> & { readonly report: ResizeStatus }) | undefined;
  /** The reason why the kubelet rejected or terminated the pod, for example `DeadlineExceeded` or `OutOfcpu`. The phase is then Failed. */
  readonly failure?: { readonly reason: string; readonly message: string; readonly isDisruption?: boolean } | undefined;
}

const none: readonly never[] = [];

/** Returns the pod status that the kubelet reports, with only the conditions that the kubelet owns. Pure. */
export function generatePodStatus(pod: Pod, inputs: PodStatusInputs): PodStatus {
  const { before, hostIPs, now, startedAt, ended, failure, state } = inputs;
  const { initContainers = none, containers = none, ephemeralContainers = none } = pod.spec ?? {};
  const init = generateContainerStatuses(pod, { kind: 'init', containers: initContainers, inputs });
  const regular = generateContainerStatuses(pod, { kind: 'regular', containers, inputs });
  const ephemeral = generateContainerStatuses(pod, { kind: 'ephemeral', containers: ephemeralContainers, inputs });
  const phase = phaseOf(
    pod,
    before,
    failure !== undefined ? 'Failed' : inputs.restarting === true ? 'Pending' : computePodPhase(pod, { init, regular, ended }),
  );
  const podIPs = isHostNetwork(pod) ? (state.sandboxes.length > 0 ? hostIPs : none) : state.podIPs;
  // a terminated pod keeps its last address: logs of other components refer to it
  const ips = podIPs.length > 0 ? podIPs.map((ip) => ({ ip })) : (before?.podIPs ?? none);
  const { generation } = pod.metadata ?? {};
  return {
    phase,
    conditions: generatePodConditions(pod, {
      init,
      regular,
      phase,
      restarting: inputs.restarting === true,
      resize: inputs.resize?.report,
      disruption: failure?.isDisruption === true ? failure.message : undefined,
      sandboxReady: state.readySandbox !== undefined && podIPs.length > 0,
      before: before?.conditions ?? none,
      now: formatTime(now),
    }),
    ...(failure && { reason: failure.reason, message: failure.message }),
    ...(!failure &&
      before?.reason !== undefined &&
      isTerminalPhase(before.phase) && { reason: before.reason, ...(before.message !== undefined && { message: before.message }) }),
    ...(hostIPs[0] !== undefined && { hostIP: hostIPs[0], hostIPs: hostIPs.map((ip) => ({ ip })) }),
    ...(ips[0] !== undefined && { podIP: ips[0].ip, podIPs: ips }),
    startTime: before?.startTime ?? formatTime(startedAt),
    ...(init.length > 0 && { initContainerStatuses: init }),
    containerStatuses: regular,
    ...(ephemeral.length > 0 && { ephemeralContainerStatuses: ephemeral }),
    ...wholeResources(pod, inputs),
    qosClass: before?.qosClass ?? qosClass(pod.spec),
    ...(generation !== undefined && { observedGeneration: generation }),
  };
}

/** Returns the allocated and the actual pod-level resources (KEP-5419). */
function wholeResources({ spec }: Pod, { resize, before, ended }: PodStatusInputs): Pick<PodStatus, 'allocatedResources' | 'resources'> {
  if (!spec?.resources) return {};
  const resources = ended ? before?.resources : (resize?.actualPodResources ?? spec.resources);
  return {
    ...(spec.resources.requests && { allocatedResources: spec.resources.requests }),
    ...(resources && { resources }),
  };
}

/** Returns the phase to report. A terminal phase never changes. */
function phaseOf(pod: Pod, before: PodStatus | undefined, computed: PodPhase): PodPhase {
  for (const phase of [before?.phase, pod.status?.phase]) if (phase === 'Succeeded' || phase === 'Failed') return phase;
  return computed;
}
