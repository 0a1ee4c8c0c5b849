import type { Pod, Volume } from '@oarlock/api/types/core-v1';

/** The resources that pods reference by name. */
export type ReferencedResource = 'secrets' | 'configmaps' | 'persistentvolumeclaims' | 'serviceaccounts' | 'resourceclaims';
/** The key of an object in the graph, `secrets namespace/name`. */
export type Reference = `${ReferencedResource} ${string}/${string}`;

/** Returns the objects in the pod's namespace that the pod references, and that the pod's node may therefore read. */
export function referencesOf({ metadata, spec, status }: Pod): ReadonlySet<Reference> {
  const { namespace = '', name: podName = '', annotations } = metadata ?? {};
  const references = new Set<Reference>();
  // the node itself writes mirror pods: they must not give it access
  if (spec === undefined || annotations?.['kubernetes.io/config.mirror'] !== undefined) return references;
  const add = (resource: ReferencedResource, name: string | undefined) => {
    if (name !== undefined && name !== '') references.add(`${resource} ${namespace}/${name}`);
  };
  add('serviceaccounts', spec.serviceAccountName ?? 'default');
  for (const { name } of spec.imagePullSecrets ?? []) add('secrets', name);
  for (const { env, envFrom } of [...(spec.initContainers ?? []), ...spec.containers, ...(spec.ephemeralContainers ?? [])]) {
    for (const { valueFrom } of env ?? []) {
      add('secrets', valueFrom?.secretKeyRef?.name);
      add('configmaps', valueFrom?.configMapKeyRef?.name);
    }
    for (const { secretRef, configMapRef } of envFrom ?? []) {
      add('secrets', secretRef?.name);
      add('configmaps', configMapRef?.name);
    }
  }
  for (const volume of spec.volumes ?? []) {
    add('persistentvolumeclaims', volume.persistentVolumeClaim?.claimName);
    if (volume.ephemeral !== undefined) add('persistentvolumeclaims', `${podName}-${volume.name}`);
    add('configmaps', volume.configMap?.name);
    for (const name of secretsOf(volume)) add('secrets', name);
    for (const { secret, configMap } of volume.projected?.sources ?? []) {
      add('secrets', secret?.name);
      add('configmaps', configMap?.name);
    }
  }
  for (const { resourceClaimName } of spec.resourceClaims ?? []) add('resourceclaims', resourceClaimName);
  for (const { resourceClaimName } of status?.resourceClaimStatuses ?? []) add('resourceclaims', resourceClaimName);
  add('resourceclaims', status?.extendedResourceClaimStatus?.resourceClaimName);
  return references;
}

function secretsOf(volume: Volume): readonly (string | undefined)[] {
  return [
    volume.secret?.secretName,
    volume.azureFile?.secretName,
    volume.csi?.nodePublishSecretRef?.name,
    volume.cephfs?.secretRef?.name,
    volume.flexVolume?.secretRef?.name,
    volume.iscsi?.secretRef?.name,
    volume.rbd?.secretRef?.name,
    volume.scaleIO?.secretRef?.name,
    volume.storageos?.secretRef?.name,
  ];
}
