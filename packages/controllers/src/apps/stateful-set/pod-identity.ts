import { statefulSets } from '@oarlock/api/resources';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod, PodTemplateSpec, Volume } from '@oarlock/api/types/core-v1';
import { podFromTemplate } from '../../pods/pod-template.ts';
import { revisionLabel } from '../history/controller-history.ts';

export const podNameLabel = 'statefulset.kubernetes.io/pod-name';
export const podIndexLabel = 'apps.kubernetes.io/pod-index';

/** Returns the ordinal in a pod's name, for example 3 for `web-3`, or undefined if the name is not `<setName>-<ordinal>`. */
export function ordinalOf(pod: Pod, setName: string): number | undefined {
  const name = pod.metadata?.name ?? '';
  if (!name.startsWith(`${setName}-`)) return undefined;
  const digits = name.slice(setName.length + 1);
  return /^(0|[1-9][0-9]{0,9})$/.test(digits) ? Number(digits) : undefined;
}
export const startOrdinal = (set: StatefulSet): number => set.spec?.ordinals?.start ?? 0;
export const replicasOf = (set: StatefulSet): number => set.spec?.replicas ?? 1;
/** Returns true if the ordinal is in the range that `spec.ordinals.start` and `spec.replicas` define. */
export const isInOrdinalRange = (set: StatefulSet, ordinal: number): boolean =>
  ordinal >= startOrdinal(set) && ordinal < startOrdinal(set) + replicasOf(set);
export const revisionOf = (pod: Pod): string | undefined => pod.metadata?.labels?.[revisionLabel];

export const claimName = (set: StatefulSet, template: PersistentVolumeClaim, ordinal: number): string =>
  `${template.metadata?.name}-${set.metadata?.name}-${ordinal}`;

/** Returns the PersistentVolumeClaims of one replica, built from volumeClaimTemplates. */
export const claimsOf = (set: StatefulSet, ordinal: number): readonly PersistentVolumeClaim[] =>
  (set.spec?.volumeClaimTemplates ?? []).map((template) => {
    const { status: _status, ...rest } = template;
    return {
      ...rest,
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        ...template.metadata,
        name: claimName(set, template, ordinal),
        namespace: set.metadata?.namespace ?? '',
        labels: { ...template.metadata?.labels, ...set.spec?.selector.matchLabels },
      },
    };
  });

/** Returns the volumes of a replica's pod. A volume for a volumeClaimTemplate replaces a template volume of the same name. */
function volumesOf(set: StatefulSet, ordinal: number, templateVolumes: readonly Volume[]): readonly Volume[] {
  const claims = (set.spec?.volumeClaimTemplates ?? []).map(
    (template): Volume => ({
      name: template.metadata?.name ?? '',
      persistentVolumeClaim: { claimName: claimName(set, template, ordinal) },
    }),
  );
  return [...claims, ...templateVolumes.filter(({ name }) => !claims.some((claim) => claim.name === name))];
}

const identityLabels = (name: string, ordinal: number) => ({ [podNameLabel]: name, [podIndexLabel]: String(ordinal) });

/** The template, its revision and the ordinal of the pod. */
export interface StatefulPodIdentity {
  readonly template: PodTemplateSpec | undefined;
  readonly revision: string;
  readonly ordinal: number;
}

/** Returns a new pod for an ordinal, from the pod template of a revision. */
export function newStatefulPod(set: StatefulSet, { template, revision, ordinal }: StatefulPodIdentity): Pod {
  const name = `${set.metadata?.name}-${ordinal}`;
  const pod = podFromTemplate(template, { resource: statefulSets, owner: set, name });
  const volumes = volumesOf(set, ordinal, template?.spec?.volumes ?? []);
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata?.labels, ...identityLabels(name, ordinal), [revisionLabel]: revision } },
    spec: {
      ...pod.spec,
      containers: pod.spec?.containers ?? [],
      hostname: name,
      ...(set.spec?.serviceName && { subdomain: set.spec.serviceName }),
      ...(volumes.length > 0 && { volumes }),
    },
  };
}

/** Returns the pod with the identity labels and claims of its ordinal. Returns the same object if the pod has these already. */
export function withIdentity(set: StatefulSet, pod: Pod, ordinal: number): Pod {
  const name = pod.metadata?.name ?? '';
  const labels = identityLabels(name, ordinal);
  const labelsMatch = Object.entries(labels).every(([label, value]) => pod.metadata?.labels?.[label] === value);
  const storageMatches = (set.spec?.volumeClaimTemplates ?? []).every((template) =>
    pod.spec?.volumes?.some(
      (volume) => volume.name === template.metadata?.name && volume.persistentVolumeClaim?.claimName === claimName(set, template, ordinal),
    ),
  );
  if (labelsMatch && storageMatches) return pod;
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata?.labels, ...labels } },
    ...(pod.spec && { spec: { ...pod.spec, volumes: volumesOf(set, ordinal, pod.spec.volumes ?? []) } }),
  };
}
