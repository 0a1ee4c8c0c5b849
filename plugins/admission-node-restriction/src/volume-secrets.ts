import { claimTokens, secretReference, type SecretUse } from '@oarlock/api/component-helpers/class-secrets';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim, SecretReference } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { allow, deny, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client, ObjectName } from '@oarlock/spi/client';

// The node authorizer lets a node read the Secrets of the PersistentVolumes of its pods. A node that chose these Secrets itself could read any.

const selectedNode = 'volume.kubernetes.io/selected-node';
const deletionSecret = 'volume.kubernetes.io/provisioner-deletion-secret';
const deletionSecretKeys = [`${deletionSecret}-name`, `${deletionSecret}-namespace`] as const;

const uses = {
  controllerPublishSecretRef: 'controller-publish',
  controllerExpandSecretRef: 'controller-expand',
  nodeStageSecretRef: 'node-stage',
  nodePublishSecretRef: 'node-publish',
  nodeExpandSecretRef: 'node-expand',
} as const satisfies Readonly<Record<string, SecretUse>>;

/** Admits a PersistentVolume that a provisioner on this node creates, if it matches its PersistentVolumeClaim and the claim's StorageClass. */
export async function admitNewVolume(client: Client, node: string, volume: PersistentVolume): Promise<AdmissionDecision> {
  const { claimRef, storageClassName = '' } = volume.spec ?? {};
  const rejected = (why: string) => deny(`node ${JSON.stringify(node)} can only create PersistentVolumes ${why}`);
  const { namespace = '', name = '' } = claimRef ?? {};
  const claim = name === '' || namespace === '' ? undefined : await find(client, persistentVolumeClaims, { namespace, name });
  if (claim === undefined || !isFor(claim, volume)) return rejected('for an unbound claim that they name with its UID');
  const storageClass = storageClassName === '' ? undefined : await find(client, storageClasses, { name: storageClassName });
  if (
    storageClass === undefined ||
    claim.spec?.storageClassName !== storageClassName ||
    storageClass.provisioner !== volume.spec?.csi?.driver
  )
    return rejected("of the claim's StorageClass and its provisioner");
  if (!isProvisionedBy(node, claim, storageClass)) return rejected('for claims that are scheduled to the node');
  return hasSecretsOf(volume, claim, storageClass) ? allow : rejected("with the secrets of the claim's StorageClass");
}

/** Returns the fields of a PersistentVolume that an update by a node must not change. */
export function fixedFields({ metadata, spec, status }: PersistentVolume): unknown {
  const { capacity: _capacity, volumeAttributesClassName: _attributes, ...fixed } = spec ?? {};
  const annotations = deletionSecretKeys.map((key) => metadata?.annotations?.[key] ?? '');
  const { ownerReferences = [] } = metadata ?? {};
  return JSON.parse(JSON.stringify({ spec: fixed, status, annotations, ownerReferences }));
}

async function find<T extends KubeObject>(client: Client, resource: Resource<T>, name: ObjectName): Promise<T | undefined> {
  try {
    return await client.get(resource, name);
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

function isFor({ metadata, spec }: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  const { uid = '' } = metadata ?? {};
  const name = volume.metadata?.name;
  return uid !== '' && volume.spec?.claimRef?.uid === uid && name === `pvc-${uid}` && (!spec?.volumeName || spec.volumeName === name);
}

/**
 * Returns true if the node may provision the claim: the scheduler has selected the node in the claim's annotation, which nodes may not set, or
 * the StorageClass has volumeBindingMode Immediate and no node is selected.
 */
function isProvisionedBy(node: string, { metadata }: PersistentVolumeClaim, { volumeBindingMode }: StorageClass): boolean {
  const selected = metadata?.annotations?.[selectedNode];
  return selected === undefined ? volumeBindingMode !== 'WaitForFirstConsumer' : selected === node;
}

function hasSecretsOf({ metadata, spec }: PersistentVolume, claim: PersistentVolumeClaim, { parameters }: StorageClass): boolean {
  const tokens = claimTokens(metadata?.name ?? '', claim);
  const same = (ref: SecretReference | undefined, use: SecretUse): boolean => {
    let expected: SecretReference | undefined;
    try {
      expected = secretReference(parameters, use, tokens);
    } catch {
      return false; // the class names a Secret that does not resolve for this claim
    }
    return jsonEqual([ref?.name ?? '', ref?.namespace ?? ''], [expected?.name ?? '', expected?.namespace ?? '']);
  };
  const [name, namespace] = deletionSecretKeys.map((key) => metadata?.annotations?.[key] ?? '');
  return (
    Object.entries(uses).every(([field, use]) => same(spec?.csi?.[field as keyof typeof uses], use)) &&
    same({ name: name ?? '', namespace: namespace ?? '' }, 'provisioner')
  );
}
