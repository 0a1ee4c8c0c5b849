import { objectKey, type KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes, pods as podResource } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { typed } from '../pod-template.ts';
import { byClaim, claimsOfPod } from '../pods-by-claim.ts';

const claimFinalizer = 'kubernetes.io/pvc-protection';
const volumeFinalizer = 'kubernetes.io/pv-protection';

/** Puts the finalizer on what is there to stay; takes it from what is deleted and not in use. */
async function protect<T extends KubeObject>(
  resource: Resource<T>,
  object: T,
  finalizer: string,
  inUse: () => Promise<boolean>,
  client: Client,
): Promise<void> {
  const finalizers = object.metadata?.finalizers ?? [];
  const present = finalizers.includes(finalizer);
  const leaving = object.metadata?.deletionTimestamp !== undefined;
  if (leaving !== present || (leaving && (await inUse()))) return;
  const wanted = leaving ? finalizers.filter((each) => each !== finalizer) : [...finalizers, finalizer];
  try {
    await client.update(resource, { ...typed(resource, object), metadata: { ...object.metadata, finalizers: wanted } });
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}

/** A claim stays as long as a pod that is on a node uses it. */
export const claimProtection = Controllers.plugin({
  id: 'controller-pvc-protection',
  declares: { loop: 'persistentvolumeclaim-protection' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const claims = informers.of(persistentVolumeClaims);
    const pods = informers.of(podResource);
    pods.addIndex(byClaim, claimsOfPod);
    return {
      name: 'persistentvolumeclaim-protection',
      watches: [
        watch(claims, (claim) => [objectKey(claim)]),
        // only a claim that is on its way out waits for pods
        watch(pods, (pod) => claimsOfPod(pod).filter((key) => claims.get(key)?.metadata?.deletionTimestamp !== undefined)),
      ],
      async reconcile(key, { client }) {
        const claim = claims.get(key);
        if (claim === undefined) return;
        const inUse = async () => {
          if (pods.byIndex(byClaim, key).some(({ spec }) => spec?.nodeName)) return true;
          // the cache may not have shown the pod yet: nothing brings a volume back
          const live = await client.list(podResource, { namespace: claim.metadata?.namespace ?? '' });
          return live.items.some((pod) => pod.spec?.nodeName !== undefined && claimsOfPod(pod).includes(key));
        };
        await protect(persistentVolumeClaims, claim, claimFinalizer, inUse, client);
      },
    };
  },
});

/** A volume stays as long as it is bound. */
export const volumeProtection = Controllers.plugin({
  id: 'controller-pv-protection',
  declares: { loop: 'persistentvolume-protection' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const volumes = informers.of(persistentVolumes);
    return {
      name: 'persistentvolume-protection',
      watches: [watch(volumes, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(key, { client }) {
        const volume = volumes.get(key);
        if (volume !== undefined)
          await protect(persistentVolumes, volume, volumeFinalizer, async () => volume.status?.phase === 'Bound', client);
      },
    };
  },
});
