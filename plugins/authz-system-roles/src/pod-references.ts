import type { Pod, Volume } from '@oarlock/api/types/core-v1';

export type Referred = 'secrets' | 'configmaps' | 'persistentvolumeclaims' | 'serviceaccounts';

/** Whether a pod names an object of its namespace, which then has to be within reach of the pod's node. */
export function refersTo(pod: Pod, kind: Referred, name: string): boolean {
  const { spec } = pod;
  if (spec === undefined) return false;
  if (kind === 'serviceaccounts') return (spec.serviceAccountName ?? 'default') === name;
  if (kind === 'persistentvolumeclaims') {
    return (
      spec.volumes?.some(
        (volume) =>
          volume.persistentVolumeClaim?.claimName === name ||
          (volume.ephemeral !== undefined && `${pod.metadata?.name}-${volume.name}` === name),
      ) === true
    );
  }
  if (kind === 'secrets' && spec.imagePullSecrets?.some((reference) => reference.name === name) === true) return true;
  return inEnvironment(spec, kind, name) || spec.volumes?.some((volume) => inVolume(volume, kind, name)) === true;
}

function inEnvironment(spec: NonNullable<Pod['spec']>, kind: 'secrets' | 'configmaps', name: string): boolean {
  for (const { env, envFrom } of [...(spec.initContainers ?? []), ...spec.containers, ...(spec.ephemeralContainers ?? [])]) {
    for (const { valueFrom } of env ?? [])
      if ((kind === 'secrets' ? valueFrom?.secretKeyRef : valueFrom?.configMapKeyRef)?.name === name) return true;
    for (const source of envFrom ?? []) if ((kind === 'secrets' ? source.secretRef : source.configMapRef)?.name === name) return true;
  }
  return false;
}

function inVolume(volume: Volume, kind: 'secrets' | 'configmaps', name: string): boolean {
  const sources = volume.projected?.sources ?? [];
  if (kind === 'configmaps') return volume.configMap?.name === name || sources.some(({ configMap }) => configMap?.name === name);
  const secretRefs = [
    volume.csi?.nodePublishSecretRef,
    volume.cephfs?.secretRef,
    volume.flexVolume?.secretRef,
    volume.iscsi?.secretRef,
    volume.rbd?.secretRef,
    volume.scaleIO?.secretRef,
    volume.storageos?.secretRef,
  ];
  return (
    volume.secret?.secretName === name ||
    volume.azureFile?.secretName === name ||
    secretRefs.some((reference) => reference?.name === name) ||
    sources.some(({ secret }) => secret?.name === name)
  );
}
