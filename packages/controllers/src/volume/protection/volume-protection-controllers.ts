import { objectKey, type KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes, pods as podResource, volumeAttributesClasses } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { podsByClaimIndex, claimKeysOfPod } from '../../indexes/pods-by-claim.ts';

const claimFinalizer = 'kubernetes.io/pvc-protection';
const volumeFinalizer = 'kubernetes.io/pv-protection';
const attributesClassFinalizer = 'kubernetes.io/vac-protection';

/** Adds the protection finalizer to an object that is not being deleted, and removes it from a deleted object that is not in use. */
async function protect<T extends KubeObject>(
  resource: Resource<T>,
  object: T,
  { finalizer, inUse, client }: { readonly finalizer: string; readonly inUse: () => Promise<boolean>; readonly client: Client },
): Promise<void> {
  const finalizers = object.metadata?.finalizers ?? [];
  const hasFinalizer = finalizers.includes(finalizer);
  const isDeleting = object.metadata?.deletionTimestamp !== undefined;
  if (isDeleting !== hasFinalizer || (isDeleting && (await inUse()))) return;
  const desired = isDeleting ? finalizers.filter((each) => each !== finalizer) : [...finalizers, finalizer];
  try {
    await client.update(resource, { ...withTypeMeta(resource, object), metadata: { ...object.metadata, finalizers: desired } });
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}

/** Keeps a deleted PersistentVolumeClaim while a scheduled pod uses the claim. */
export const claimProtection = Controllers.plugin({
  id: 'controller-pvc-protection',
  declares: { loop: 'persistentvolumeclaim-protection' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const claims = informers.forResource(persistentVolumeClaims);
    const pods = informers.forResource(podResource);
    pods.addIndexer(podsByClaimIndex, claimKeysOfPod);
    return {
      name: 'persistentvolumeclaim-protection',
      watches: [
        watch(claims, (claim) => [objectKey(claim)]),
        // only a deleted claim waits for its pods
        watch(pods, (pod) => claimKeysOfPod(pod).filter((key) => claims.get(key)?.metadata?.deletionTimestamp !== undefined)),
      ],
      async reconcile(key, { client }) {
        const claim = claims.get(key);
        if (claim === undefined) return;
        const inUse = async () => {
          if (pods.byIndex(podsByClaimIndex, key).some(({ spec }) => spec?.nodeName)) return true;
          // the cache may not show the pod yet, and the deletion of a volume cannot be undone
          const live = await client.list(podResource, { namespace: claim.metadata?.namespace ?? '' });
          return live.items.some((pod) => pod.spec?.nodeName !== undefined && claimKeysOfPod(pod).includes(key));
        };
        await protect(persistentVolumeClaims, claim, { finalizer: claimFinalizer, inUse, client });
      },
    };
  },
});

/** Keeps a deleted PersistentVolume while the volume is bound to a claim. */
export const volumeProtection = Controllers.plugin({
  id: 'controller-pv-protection',
  declares: { loop: 'persistentvolume-protection' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const volumes = informers.forResource(persistentVolumes);
    return {
      name: 'persistentvolume-protection',
      watches: [watch(volumes, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(key, { client }) {
        const volume = volumes.get(key);
        if (volume !== undefined)
          await protect(persistentVolumes, volume, {
            finalizer: volumeFinalizer,
            inUse: async () => volume.status?.phase === 'Bound',
            client,
          });
      },
    };
  },
});

/** Name of the indexes of PersistentVolumes and PersistentVolumeClaims by the VolumeAttributesClasses that they refer to. */
const attributesClassIndex = 'volume-attributes-class';
const isName = (name: string | undefined): name is string => name !== undefined && name !== '';
const classesOfVolume = ({ spec }: PersistentVolume): readonly string[] => [spec?.volumeAttributesClassName].filter(isName);
const classesOfClaim = ({ spec, status }: PersistentVolumeClaim): readonly string[] => [
  ...new Set(
    [
      spec?.volumeAttributesClassName,
      status?.currentVolumeAttributesClassName,
      status?.modifyVolumeStatus?.targetVolumeAttributesClassName,
    ].filter(isName),
  ),
];

/** Keeps a deleted VolumeAttributesClass while a PersistentVolume or PersistentVolumeClaim refers to the class. */
export const attributesClassProtection = Controllers.plugin({
  id: 'controller-vac-protection',
  declares: { loop: 'volumeattributesclass-protection' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const classes = informers.forResource(volumeAttributesClasses);
    const volumes = informers.forResource(persistentVolumes);
    const claims = informers.forResource(persistentVolumeClaims);
    volumes.addIndexer(attributesClassIndex, classesOfVolume);
    claims.addIndexer(attributesClassIndex, classesOfClaim);
    // only a deleted class waits for the objects that refer to it
    const deleted = (names: readonly string[]) => names.filter((name) => classes.get(name)?.metadata?.deletionTimestamp !== undefined);
    return {
      name: 'volumeattributesclass-protection',
      watches: [
        watch(classes, ({ metadata }) => [metadata?.name ?? '']),
        watch(volumes, (volume, old) => deleted([...classesOfVolume(volume), ...(old ? classesOfVolume(old) : [])])),
        watch(claims, (claim, old) => deleted([...classesOfClaim(claim), ...(old ? classesOfClaim(old) : [])])),
      ],
      async reconcile(key, { client }) {
        const attributesClass = classes.get(key);
        if (attributesClass === undefined) return;
        const inUse = async () =>
          volumes.byIndex(attributesClassIndex, key).length > 0 || claims.byIndex(attributesClassIndex, key).length > 0;
        await protect(volumeAttributesClasses, attributesClass, { finalizer: attributesClassFinalizer, inUse, client });
      },
    };
  },
});
