import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { persistentVolumes, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { quantityValue } from '@oarlock/api/values/quantity';
import type { PersistentVolume, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder, Informer } from '@oarlock/spi/client';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { isTerminal } from '../../pods/pod-state.ts';
import { objectName } from '../../objects/object-identity.ts';
import { podsByClaimIndex } from '../../indexes/pods-by-claim.ts';
import { setPhase, unbind } from './volume-binding.ts';

const namespace = 'default';
const prefix = 'recycler-for-';
const gibibyte = 2 ** 30;
/** Timeout of the recycler pod in seconds: a minimum, and an increment for each GiB of capacity, as upstream. */
const timeoutSeconds = { hostPath: { least: 60, perGib: 30 }, nfs: { least: 300, perGib: 30 } } as const;
const script = 'test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1';

/** Returns the name of the volume that a recycler pod recycles, or undefined if the pod is not a recycler pod. */
export const recycledBy = ({ metadata }: Pod): string | undefined =>
  metadata?.namespace === namespace && metadata.name?.startsWith(prefix) === true ? metadata.name.slice(prefix.length) : undefined;

export interface RecyclerOptions {
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  /** Image of the recycler pod. The image must contain a shell, find and ls. */
  readonly image: string;
}

/**
 * Implements the deprecated reclaim policy Recycle: a pod empties the volume, which then becomes available again. Supports only hostPath and
 * NFS volumes, as upstream.
 */
export class Recycler {
  readonly #options: RecyclerOptions;

  constructor(options: RecyclerOptions) {
    this.#options = options;
  }

  /** Makes the next step of recycling. The termination of the recycler pod triggers the next reconcile of the volume. */
  async step(volume: PersistentVolume, client: Client): Promise<void> {
    const { pods } = this.#options;
    const name = volume.metadata?.name ?? '';
    const pod = pods.get(`${namespace}/${prefix}${name}`);
    const failed = volume.status?.phase === 'Failed';
    if (pod?.metadata?.deletionTimestamp !== undefined) return; // the pod of a previous recycling
    if (pod === undefined) {
      if (!failed) await this.#begin(volume, client);
      return;
    }
    if (!isTerminal(pod)) return;
    if (pod.status?.phase === 'Failed') {
      await this.#fail(volume, `Recycle failed: ${pod.status.message || 'the recycler pod failed'}`, client);
      await deletePod(pod, client);
      return;
    }
    // deleted first: the result of this pod must not apply to the next claim
    await deletePod(pod, client);
    if (failed) return;
    this.#options.recorder.event(volume, 'Normal', 'VolumeRecycled', 'Volume recycled');
    await unbind(volume, client);
  }

  async #begin(volume: PersistentVolume, client: Client): Promise<void> {
    const { pods, recorder, image } = this.#options;
    const recyclerPod = newRecyclerPod(volume, image);
    if (recyclerPod === undefined) {
      await this.#fail(volume, 'No recycler plugin found for the volume!', client);
      return;
    }
    const users = pods.byIndex(podsByClaimIndex, claimOf(volume)).filter((pod) => !isTerminal(pod));
    if (users.length > 0) {
      recorder.event(volume, 'Normal', 'VolumeFailedRecycle', `Volume is used by pods: ${users.map(objectKey).join(',')}`);
      return;
    }
    // a stale cache may show a volume that is available or bound again
    const current = await ignoreNotFound(() => client.get(persistentVolumes, objectName(volume)));
    if (current?.status?.phase !== 'Released' || current.spec?.claimRef?.uid !== volume.spec?.claimRef?.uid) return;
    try {
      await client.create(podResource, recyclerPod);
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
    }
  }

  async #fail(volume: PersistentVolume, message: string, client: Client): Promise<void> {
    if (volume.status?.phase === 'Failed') return;
    // recorded after the write: a reconcile of an outdated volume fails with a conflict, and must not record the event again
    const failed = await setPhase(volume, { phase: 'Failed', client, message });
    if (failed !== undefined) this.#options.recorder.event(failed, 'Warning', 'VolumeFailedRecycle', message);
  }
}

const claimOf = ({ spec }: PersistentVolume): ObjectKey => `${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`;

async function deletePod(pod: Pod, client: Client): Promise<void> {
  try {
    await client.delete(podResource, objectName(pod), {
      ...(pod.metadata?.uid !== undefined && { preconditions: { uid: pod.metadata.uid } }),
    });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}

function sourceOf({ hostPath, nfs }: NonNullable<PersistentVolume['spec']> = {}): Pick<Volume, 'hostPath' | 'nfs'> | undefined {
  if (hostPath !== undefined) return { hostPath };
  return nfs === undefined ? undefined : { nfs };
}

function newRecyclerPod({ metadata, spec }: PersistentVolume, image: string): Pod | undefined {
  const source = sourceOf(spec);
  if (spec === undefined || source === undefined) return undefined;
  const { least, perGib } = timeoutSeconds['nfs' in source ? 'nfs' : 'hostPath'];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name: `${prefix}${metadata?.name}` },
    spec: {
      restartPolicy: 'Never',
      activeDeadlineSeconds: Math.max(least, Math.ceil(quantityValue(spec.capacity?.['storage'] ?? '0') / gibibyte) * perGib),
      ...(spec.nodeAffinity?.required && {
        affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: spec.nodeAffinity.required } },
      }),
      volumes: [{ name: 'vol', ...source }],
      containers: [
        {
          name: 'pv-recycler',
          image,
          command: ['/bin/sh'],
          args: ['-c', script],
          volumeMounts: [{ name: 'vol', mountPath: '/scrub' }],
        },
      ],
    },
  };
}
