import { statefulSets } from '@oarlock/api/resources';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod, PodTemplateSpec, Volume } from '@oarlock/api/types/core-v1';
import { podFromTemplate } from '../pod-template.ts';
import { revisionLabel } from '../revision-history.ts';

export const podNameLabel = 'statefulset.kubernetes.io/pod-name';
export const podIndexLabel = 'apps.kubernetes.io/pod-index';

/** `web-3` is the fourth of `web`; undefined for a name of another form. */
export function ordinalOf(pod: Pod, setName: string): number | undefined {
  const name = pod.metadata?.name ?? '';
  if (!name.startsWith(`${setName}-`)) return undefined;
  const digits = name.slice(setName.length + 1);
  return /^(0|[1-9][0-9]{0,9})$/.test(digits) ? Number(digits) : undefined;
}
export const startOf = (set: StatefulSet): number => set.spec?.ordinals?.start ?? 0;
export const replicasOf = (set: StatefulSet): number => set.spec?.replicas ?? 1;
/** The ordinal is one of those that the set asks for. */
export const isWanted = (set: StatefulSet, ordinal: number): boolean => ordinal >= startOf(set) && ordinal < startOf(set) + replicasOf(set);
export const revisionOf = (pod: Pod): string | undefined => pod.metadata?.labels?.[revisionLabel];

export const claimName = (set: StatefulSet, template: PersistentVolumeClaim, ordinal: number): string =>
  `${template.metadata?.name}-${set.metadata?.name}-${ordinal}`;

/** The claims of one replica, as they are to be made. */
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

/** The template's volumes with those of the claims in place of volumes of the same name. */
function volumesOf(set: StatefulSet, ordinal: number, own: readonly Volume[]): readonly Volume[] {
  const claims = (set.spec?.volumeClaimTemplates ?? []).map(
    (template): Volume => ({
      name: template.metadata?.name ?? '',
      persistentVolumeClaim: { claimName: claimName(set, template, ordinal) },
    }),
  );
  return [...claims, ...own.filter(({ name }) => !claims.some((claim) => claim.name === name))];
}

const identityLabels = (name: string, ordinal: number) => ({ [podNameLabel]: name, [podIndexLabel]: String(ordinal) });

/** The pod of an ordinal, of one revision's template. */
export function makePod(set: StatefulSet, template: PodTemplateSpec | undefined, revision: string, ordinal: number): Pod {
  const name = `${set.metadata?.name}-${ordinal}`;
  const pod = podFromTemplate(template, statefulSets, set, name);
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

/** The pod with the labels and claims that its place asks for; the same object when it has them. */
export function withIdentity(set: StatefulSet, pod: Pod, ordinal: number): Pod {
  const name = pod.metadata?.name ?? '';
  const labels = identityLabels(name, ordinal);
  const labelled = Object.entries(labels).every(([label, value]) => pod.metadata?.labels?.[label] === value);
  const stored = (set.spec?.volumeClaimTemplates ?? []).every((template) =>
    pod.spec?.volumes?.some(
      (volume) => volume.name === template.metadata?.name && volume.persistentVolumeClaim?.claimName === claimName(set, template, ordinal),
    ),
  );
  if (labelled && stored) return pod;
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata?.labels, ...labels } },
    ...(pod.spec && { spec: { ...pod.spec, volumes: volumesOf(set, ordinal, pod.spec.volumes ?? []) } }),
  };
}
