import type { Pod, Volume } from '@oarlock/api/types/core-v1';

type Spec = NonNullable<Pod['spec']>;

const containersOf = (spec: Spec) => [...spec.containers, ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])];

/** Returns true if a volume of any type references a Secret. */
function namesSecret({ secret, projected, azureFile, cephfs, cinder, csi, flexVolume, iscsi, rbd, scaleIO, storageos }: Volume): boolean {
  return (
    secret !== undefined ||
    azureFile !== undefined ||
    csi?.nodePublishSecretRef !== undefined ||
    [cephfs, cinder, flexVolume, iscsi, rbd, scaleIO, storageos].some((source) => source?.secretRef !== undefined) ||
    projected?.sources?.some((source) => source.secret !== undefined) === true
  );
}

const namesConfigMap = ({ configMap, projected }: Volume): boolean =>
  configMap !== undefined || projected?.sources?.some((source) => source.configMap !== undefined) === true;

/** Returns the kind of object, other than Secrets and ConfigMaps, that a volume references; undefined if it references none. */
function referencedObject({ csi, glusterfs, persistentVolumeClaim, ephemeral, projected }: Volume): string | undefined {
  if (csi !== undefined) return 'csidrivers (via CSI volumes)';
  if (glusterfs !== undefined) return 'endpoints (via glusterFS volumes)';
  if (persistentVolumeClaim !== undefined) return 'persistentvolumeclaims';
  if (ephemeral !== undefined) return 'persistentvolumeclaims (via ephemeral volumes)';
  for (const { serviceAccountToken, clusterTrustBundle, podCertificate } of projected?.sources ?? []) {
    if (serviceAccountToken !== undefined) return 'serviceaccounts (via projected volumes)';
    if (clusterTrustBundle !== undefined) return 'clustertrustbundles';
    if (podCertificate !== undefined) return 'podcertificates';
  }
  return undefined;
}

/**
 * Returns the kind of API object that a pod references, in upstream's words; undefined if the pod references none. Mirror pods must not
 * reference API objects.
 */
export function referenceOf({ spec }: Pod): string | undefined {
  if (spec === undefined) return undefined;
  if (spec.serviceAccountName) return 'serviceaccounts';
  const containers = containersOf(spec);
  const env = containers.flatMap((container) => container.env ?? []);
  const from = containers.flatMap((container) => container.envFrom ?? []);
  const volumes = spec.volumes ?? [];
  if (
    (spec.imagePullSecrets?.length ?? 0) > 0 ||
    env.some(({ valueFrom }) => valueFrom?.secretKeyRef) ||
    from.some(({ secretRef }) => secretRef) ||
    volumes.some(namesSecret)
  )
    return 'secrets';
  if (
    env.some(({ valueFrom }) => valueFrom?.configMapKeyRef) ||
    from.some(({ configMapRef }) => configMapRef) ||
    volumes.some(namesConfigMap)
  )
    return 'configmaps';
  if ((spec.resourceClaims?.length ?? 0) > 0) return 'resourceclaims';
  for (const volume of volumes) {
    const reference = referencedObject(volume);
    if (reference !== undefined) return reference;
  }
  return undefined;
}
