import type { Container, Node, PodSpec } from '../generated/types/core-v1.ts';
import { jsonEqual } from '../json/json.ts';
import { compareQuantity } from '../values/quantity.ts';
import { isRestartableInitContainer } from './restartable-init-container.ts';
import { qosClass } from './qos-class.ts';

interface DeclaredFeature {
  /** Returns true if a pod must be scheduled to a node that declares the feature. */
  readonly forScheduling?: (spec: PodSpec) => boolean;
  /** Returns true if this update of a pod requires that its node declares the feature. */
  readonly forUpdate?: (old: PodSpec, now: PodSpec) => boolean;
}

const cpuRequest = ({ resources }: Container) => resources?.requests?.['cpu'] ?? '0';
const restartsAll = ({ restartPolicyRules = [] }: Container) => restartPolicyRules.some(({ action }) => action === 'RestartAllContainers');

/** The features of version 1.36 that nodes declare (KEP-5328), because not every supported kubelet has them, by name in the order of names. */
const features: Readonly<Record<string, DeclaredFeature>> = {
  ExtendWebSocketsToKubelet: {},
  GuaranteedQoSPodCPUResize: {
    forUpdate: (old, now) =>
      qosClass(old) === 'Guaranteed' &&
      old.containers.some((container, i) => {
        const next = now.containers[i];
        return next !== undefined && compareQuantity(cpuRequest(container), cpuRequest(next)) !== 0;
      }),
  },
  InPlacePodLevelResourcesVerticalScaling: {
    forUpdate: (old, now) => !jsonEqual(old.resources ?? {}, now.resources ?? {}),
  },
  InPlacePodVerticalScalingInitContainers: {
    forUpdate: ({ initContainers: old = [] }, { initContainers: now = [] }) =>
      old.some((container, i) => !isRestartableInitContainer(container) && !jsonEqual(container.resources ?? {}, now[i]?.resources ?? {})),
  },
  RestartAllContainersOnContainerExits: {
    forScheduling: ({ containers, initContainers = [] }) => containers.some(restartsAll) || initContainers.some(restartsAll),
  },
};

/** The features that a node of this version declares, sorted. */
export const declaredFeatures: readonly string[] = Object.keys(features);

export const featuresForScheduling = (spec: PodSpec): readonly string[] =>
  declaredFeatures.filter((name) => features[name]?.forScheduling?.(spec) === true);
export const featuresForUpdate = (old: PodSpec, now: PodSpec): readonly string[] =>
  declaredFeatures.filter((name) => features[name]?.forUpdate?.(old, now) === true);

/** Returns those of the features that the node does not declare. */
export const undeclaredFeatures = ({ status }: Node, names: readonly string[]): readonly string[] =>
  names.filter((name) => status?.declaredFeatures?.includes(name) !== true);
