import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { csiDrivers, persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolumeSpec, Pod, Volume } from '@oarlock/api/types/core-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { authorizeChain, type Authorizer } from '@oarlock/spi/authz';
import type { Client, ObjectName } from '@oarlock/spi/client';

/** The CSI drivers that replace in-tree volume plugins. */
const migrated = [
  ['awsElasticBlockStore', 'ebs.csi.aws.com'],
  ['azureDisk', 'disk.csi.azure.com'],
  ['azureFile', 'file.csi.azure.com'],
  ['cinder', 'cinder.csi.openstack.org'],
  ['gcePersistentDisk', 'pd.csi.storage.gke.io'],
  ['portworxVolume', 'pxd.portworx.com'],
  ['vsphereVolume', 'csi.vsphere.vmware.com'],
] as const satisfies readonly (readonly [keyof Volume & keyof PersistentVolumeSpec, string])[];

/** The token request of a node and what decides about its audience. */
export interface TokenAudienceRequest {
  readonly admissionRequest: AdmissionRequest;
  readonly audiences: readonly string[];
  readonly pod: Pod;
}

/**
 * Admits the audience of a token that a node requests for one of its pods. Allowed are no audience, which means the API server; an audience of a
 * projected volume of the pod; an audience that the CSI driver of a volume of the pod requests; and an audience that the node is authorized for
 * (KEP-4412).
 */
export async function admitTokenAudience(
  { client, authz }: { readonly client: Client; readonly authz: readonly Authorizer[] },
  { admissionRequest: { identity, namespace, name }, audiences, pod }: TokenAudienceRequest,
): Promise<AdmissionDecision> {
  if (audiences.length > 1) return deny('node may only request 0 or 1 audiences');
  const [audience = ''] = audiences;
  if (audience === '' || isProjected(pod, audience) || (await isOfDriver(client, pod, audience))) return allow;
  const { decision } = await authorizeChain(authz, {
    kind: 'resource',
    identity,
    verb: 'request-serviceaccounts-token-audience',
    group: '',
    version: '',
    resource: audience,
    subresource: '',
    namespace,
    name,
  });
  return decision === 'allow'
    ? allow
    : deny(
        `audience ${JSON.stringify(audience)} not found in pod spec volume, ${identity.name} is not authorized to request tokens for this audience`,
      );
}

const isProjected = ({ spec }: Pod, audience: string): boolean =>
  (spec?.volumes ?? []).some(({ projected }) =>
    projected?.sources?.some(({ serviceAccountToken }) => serviceAccountToken?.audience === audience),
  );

async function isOfDriver(client: Client, pod: Pod, audience: string): Promise<boolean> {
  const drivers = new Set<string>();
  for (const volume of pod.spec?.volumes ?? []) {
    const driver = await driverOf(client, pod, volume);
    if (driver === undefined || drivers.has(driver)) continue;
    drivers.add(driver);
    const found = await find(client, csiDrivers, { name: driver });
    if (found?.spec.tokenRequests?.some((each) => each.audience === audience) === true) return true;
  }
  return false;
}

async function driverOf(client: Client, { metadata }: Pod, volume: Volume): Promise<string | undefined> {
  const inline = volume.csi?.driver ?? migratedOf(volume);
  if (inline !== undefined) return inline;
  const claimName =
    volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral === undefined ? undefined : `${metadata?.name ?? ''}-${volume.name}`);
  if (claimName === undefined) return undefined;
  const claim = await find(client, persistentVolumeClaims, { namespace: metadata?.namespace ?? '', name: claimName });
  if (!claim?.spec?.volumeName) return undefined;
  const { spec } = (await find(client, persistentVolumes, { name: claim.spec.volumeName })) ?? {};
  return spec?.csi?.driver ?? (spec && migratedOf(spec));
}

const migratedOf = (source: Volume | PersistentVolumeSpec): string | undefined => migrated.find(([key]) => source[key] !== undefined)?.[1];

async function find<T extends KubeObject>(client: Client, resource: Resource<T>, name: ObjectName): Promise<T | undefined> {
  try {
    return await client.get(resource, name);
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
