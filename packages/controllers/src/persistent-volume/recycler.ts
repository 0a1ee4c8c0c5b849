import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { persistentVolumes, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { value } from '@oarlock/api/quantity';
import type { PersistentVolume, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { Client, EventRecorder, Informer } from '@oarlock/spi/client';
import { isTerminal } from '../pod-state.ts';
import { nameOf } from '../pod-template.ts';
import { byClaim } from '../pods-by-claim.ts';
import { setPhase, unbind } from './binding.ts';

const namespace = 'default';
const prefix = 'recycler-for-';
const gibibyte = 2 ** 30;
/** How long emptying may take, in seconds: at least, and for each GiB. */
const patience = { hostPath: { least: 60, perGib: 30 }, nfs: { least: 300, perGib: 30 } } as const;
const script = 'test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1';

/** The volume that a pod empties; undefined: it is another pod. */
export const recycledBy = ({ metadata }: Pod): string | undefined =>
  metadata?.namespace === namespace && metadata.name?.startsWith(prefix) === true ? metadata.name.slice(prefix.length) : undefined;

export interface RecyclerParts {
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  /** Has a shell, find and ls. */
  readonly image: string;
}

/** The old policy Recycle: a pod empties the volume, then it is free for anybody. Only for volumes on hosts and over NFS, as upstream. */
export class Recycler {
  readonly #parts: RecyclerParts;

  constructor(parts: RecyclerParts) {
    this.#parts = parts;
  }

  /** One step. The pod's end wakes the volume again. */
  async step(volume: PersistentVolume, client: Client): Promise<void> {
    const { pods } = this.#parts;
    const name = volume.metadata?.name ?? '';
    const pod = pods.get(`${namespace}/${prefix}${name}`);
    const failed = volume.status?.phase === 'Failed';
    if (pod?.metadata?.deletionTimestamp !== undefined) return; // of the time before
    if (pod === undefined) {
      if (!failed) await this.#begin(volume, client);
      return;
    }
    if (!isTerminal(pod)) return;
    if (pod.status?.phase === 'Failed') {
      await this.#fail(volume, `Recycle failed: ${pod.status.message || 'the pod that empties the volume has failed'}`, client);
      await remove(pod, client);
      return;
    }
    // first: the end of this pod must not count for the next claim
    await remove(pod, client);
    if (failed) return;
    this.#parts.recorder.event(volume, 'Normal', 'VolumeRecycled', 'Volume recycled');
    await unbind(volume, client);
  }

  async #begin(volume: PersistentVolume, client: Client): Promise<void> {
    const { pods, recorder, image } = this.#parts;
    const made = podFor(volume, image);
    if (made === undefined) {
      await this.#fail(volume, 'No recycler plugin found for the volume!', client);
      return;
    }
    const users = pods.byIndex(byClaim, claimOf(volume)).filter((pod) => !isTerminal(pod));
    if (users.length > 0) {
      recorder.event(volume, 'Normal', 'VolumeFailedRecycle', `Volume is used by pods: ${users.map(objectKey).join(',')}`);
      return;
    }
    // a cache that is behind may show what is free again, or somebody's
    const now = await client.get(persistentVolumes, nameOf(volume)).catch(unlessMissing);
    if (now?.status?.phase !== 'Released' || now.spec?.claimRef?.uid !== volume.spec?.claimRef?.uid) return;
    try {
      await client.create(podResource, made);
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
    }
  }

  async #fail(volume: PersistentVolume, message: string, client: Client): Promise<void> {
    if (volume.status?.phase !== 'Failed') this.#parts.recorder.event(volume, 'Warning', 'VolumeFailedRecycle', message);
    await setPhase(volume, 'Failed', client, volume.status?.phase === 'Failed' ? volume.status.message : message);
  }
}

const claimOf = ({ spec }: PersistentVolume): ObjectKey => `${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`;

function unlessMissing(error: unknown): undefined {
  if (!isStatus(error, 'NotFound')) throw error;
}

async function remove(pod: Pod, client: Client): Promise<void> {
  try {
    await client.delete(podResource, nameOf(pod), {
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

function podFor({ metadata, spec }: PersistentVolume, image: string): Pod | undefined {
  const source = sourceOf(spec);
  if (spec === undefined || source === undefined) return undefined;
  const { least, perGib } = patience['nfs' in source ? 'nfs' : 'hostPath'];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name: `${prefix}${metadata?.name}` },
    spec: {
      restartPolicy: 'Never',
      activeDeadlineSeconds: Math.max(least, Math.ceil(value(spec.capacity?.['storage'] ?? '0') / gibibyte) * perGib),
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
