import { controllerRef, isControlledBy, objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import { Events, Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { podsByClaimIndex, claimKeysOfPod, ephemeralClaimName } from '../../indexes/pods-by-claim.ts';
import { withFailureEvent } from '../../errors/failure-event.ts';

const hasEphemeral = (pod: Pod) => !isTerminating(pod) && (pod.spec?.volumes?.some(({ ephemeral }) => ephemeral !== undefined) ?? false);

/** Creates the PersistentVolumeClaims of generic ephemeral volumes. The pod owns the claim, so both are deleted together. */
export default Controllers.plugin({
  id: 'controller-ephemeral-volume',
  declares: { loop: 'ephemeral-volume' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create({ informers, events }) {
    const recorder = events.recorder('ephemeral_volume');
    const pods = informers.forResource(podResource);
    const claims = informers.forResource(persistentVolumeClaims);
    pods.addIndexer(podsByClaimIndex, claimKeysOfPod);
    const ensureClaim = async (pod: Pod, volume: Volume, client: Client): Promise<void> => {
      const name = ephemeralClaimName(pod, volume.name);
      const namespace = pod.metadata?.namespace ?? '';
      let claim: PersistentVolumeClaim | undefined = claims.get(`${namespace}/${name}`);
      if (claim === undefined) {
        const { metadata, spec } = volume.ephemeral?.volumeClaimTemplate ?? {};
        try {
          await client.create(persistentVolumeClaims, {
            apiVersion: 'v1',
            kind: 'PersistentVolumeClaim',
            metadata: {
              name,
              namespace,
              ...(metadata?.labels && { labels: metadata.labels }),
              ...(metadata?.annotations && { annotations: metadata.annotations }),
              ownerReferences: [controllerRef(withTypeMeta(podResource, pod))],
            },
            ...(spec && { spec }),
          });
          return;
        } catch (error) {
          if (!isStatus(error, 'AlreadyExists')) throw error;
          claim = await client.get(persistentVolumeClaims, { namespace, name });
        }
      }
      if (!isControlledBy(claim, pod))
        throw new Error(`PVC "${namespace}/${name}" was not created for pod "${objectKey(pod)}" (pod is not owner)`);
    };
    return {
      name: 'ephemeral-volume',
      watches: [
        watch(pods, (pod) => (hasEphemeral(pod) ? [objectKey(pod)] : [])),
        watch(claims, (claim) =>
          claims.get(objectKey(claim)) === undefined
            ? pods.byIndex(podsByClaimIndex, objectKey(claim)).filter(hasEphemeral).map(objectKey)
            : [],
        ),
      ],
      async reconcile(key, { client }) {
        const pod = pods.get(key);
        if (pod === undefined || isTerminating(pod) || isTerminal(pod)) return;
        const owner = withTypeMeta(podResource, pod);
        for (const volume of pod.spec?.volumes ?? []) {
          if (volume.ephemeral === undefined) continue;
          await withFailureEvent(recorder, owner, {
            reason: 'FailedBinding',
            message: `ephemeral volume ${volume.name}`,
            work: () => ensureClaim(pod, volume, client),
          });
        }
      },
    };
  },
});
