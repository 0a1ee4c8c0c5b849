import { controllerRef, objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { typed } from '../pod-template.ts';
import { byClaim, claimsOfPod, ephemeralClaim } from '../pods-by-claim.ts';

const hasEphemeral = (pod: Pod) => !isTerminating(pod) && (pod.spec?.volumes?.some(({ ephemeral }) => ephemeral !== undefined) ?? false);

/** Makes the claims of generic ephemeral volumes: owned by their pod, so that they go with it. */
export default Controllers.plugin({
  id: 'controller-ephemeral-volume',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const pods = informers.of(podResource);
    const claims = informers.of(persistentVolumeClaims);
    pods.addIndex(byClaim, claimsOfPod);
    return {
      name: 'ephemeral-volume',
      watches: [
        watch(pods, (pod) => (hasEphemeral(pod) ? [objectKey(pod)] : [])),
        watch(claims, (claim) =>
          claims.get(objectKey(claim)) === undefined ? pods.byIndex(byClaim, objectKey(claim)).filter(hasEphemeral).map(objectKey) : [],
        ),
      ],
      async reconcile(key, { client }) {
        const pod = pods.get(key);
        if (pod === undefined || isTerminating(pod) || isTerminal(pod)) return;
        const owner = typed(podResource, pod);
        for (const { name: volume, ephemeral } of pod.spec?.volumes ?? []) {
          if (ephemeral === undefined) continue;
          const name = ephemeralClaim(pod, volume);
          const namespace = pod.metadata?.namespace ?? '';
          let claim: PersistentVolumeClaim | undefined = claims.get(`${namespace}/${name}`);
          if (claim === undefined) {
            const { metadata, spec } = ephemeral.volumeClaimTemplate ?? {};
            try {
              await client.create(persistentVolumeClaims, {
                apiVersion: 'v1',
                kind: 'PersistentVolumeClaim',
                metadata: {
                  name,
                  namespace,
                  ...(metadata?.labels && { labels: metadata.labels }),
                  ...(metadata?.annotations && { annotations: metadata.annotations }),
                  ownerReferences: [controllerRef(owner)],
                },
                ...(spec && { spec }),
              });
              continue;
            } catch (error) {
              if (!isStatus(error, 'AlreadyExists')) throw error;
              claim = await client.get(persistentVolumeClaims, { namespace, name });
            }
          }
          if (!claim.metadata?.ownerReferences?.some(({ controller, uid }) => controller === true && uid === pod.metadata?.uid))
            throw new Error(`PVC "${namespace}/${name}" was not created for pod "${key}" (pod is not owner)`);
        }
      },
    };
  },
});
