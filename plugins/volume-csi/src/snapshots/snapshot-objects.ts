import { secretReference } from '@oarlock/api/component-helpers/class-secrets';
import { objectKey, splitKey } from '@oarlock/api/object';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { isHere, quantityOf } from '../volume/provisioned-volume.ts';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import {
  snapshotContents,
  volumeSnapshots,
  type VolumeSnapshot,
  type VolumeSnapshotClass,
  type VolumeSnapshotContent,
} from '../snapshot-api/snapshot-kinds.ts';
import { finalizers, ignoreNotFound, notes, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';
import { same, SnapshotProblem } from './snapshot-status.ts';

/** Binds each VolumeSnapshot to a VolumeSnapshotContent, which this class creates or which already exists. */
export class SnapshotSync {
  readonly #options: SidecarOptions;
  readonly #caches: SnapshotCaches;

  constructor(options: SidecarOptions, caches: SnapshotCaches) {
    this.#options = options;
    this.#caches = caches;
  }

  async look(key: string): Promise<void> {
    const { client } = this.#options;
    const { namespace = '', name } = splitKey(key);
    if (this.#caches.snapshots.get(key) === undefined) {
      await this.#freeClaims(namespace);
      return;
    }
    const snapshot = await client.get(volumeSnapshots, { namespace, name }).catch(ignoreNotFound);
    if (snapshot === undefined) return;
    if (snapshot.metadata?.deletionTimestamp !== undefined) {
      await this.#leave(snapshot);
      return;
    }
    try {
      const supplied = snapshot.spec.source.volumeSnapshotContentName;
      await (supplied === undefined ? this.#dynamic(snapshot) : this.#supplied(snapshot, supplied));
    } catch (error) {
      if (!(error instanceof SnapshotProblem)) throw error;
      await this.#fail(snapshot, error);
      throw error;
    }
  }

  async #dynamic(snapshot: VolumeSnapshot): Promise<void> {
    const { client, recorder, nodeName, driver } = this.#options;
    const claimName = snapshot.spec.source.persistentVolumeClaimName ?? '';
    const { namespace = '', uid = '', name } = snapshot.metadata ?? {};
    const contentName = `snapcontent-${uid}`;
    let content = await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound);
    if (content === undefined) {
      const claim = this.#caches.claims.get(`${namespace}/${claimName}`);
      const volume = this.#volumeOf(snapshot, claim);
      if (claim === undefined || volume === undefined) return; // of another driver
      const snapshotClass = await this.#classOf(snapshot);
      await setFinalizers(client, { resource: volumeSnapshots, object: snapshot }, { add: [finalizers.source, finalizers.bound] });
      await setFinalizers(client, { resource: persistentVolumeClaims, object: claim }, { add: [finalizers.claim] });
      recorder.event(
        snapshot,
        'Normal',
        'CreatingSnapshot',
        `Waiting for a snapshot ${namespace}/${name} to be created by the CSI driver.`,
      );
      const { deletionPolicy, parameters } = snapshotClass;
      const secret = secretReference(parameters, 'snapshotter', {
        'volumesnapshot.name': name ?? '',
        'volumesnapshot.namespace': namespace,
        'volumesnapshotcontent.name': contentName,
      });
      content = await client
        .create(snapshotContents, {
          apiVersion: 'snapshot.storage.k8s.io/v1',
          kind: 'VolumeSnapshotContent',
          metadata: {
            name: contentName,
            finalizers: [finalizers.content],
            ...(driver.node.accessibleTopology !== undefined && !driver.config.central && { labels: { [notes.managedBy]: nodeName } }),
            ...(secret && {
              annotations: { [notes.deletionSecretName]: secret.name ?? '', [notes.deletionSecretNamespace]: secret.namespace ?? '' },
            }),
          },
          spec: {
            deletionPolicy,
            driver: driver.name,
            source: { volumeHandle: volume.spec?.csi?.volumeHandle ?? '' },
            sourceVolumeMode: volume.spec?.volumeMode ?? 'Filesystem',
            volumeSnapshotClassName: snapshotClass.metadata?.name ?? '',
            volumeSnapshotRef: { apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshot', name: name ?? '', namespace, uid },
          },
        })
        .catch((error: unknown) => {
          if (!isStatus(error, 'AlreadyExists')) throw error;
          return client.get(snapshotContents, { name: contentName });
        });
    }
    if (content.spec.driver === driver.name) await this.#report(snapshot, content);
  }

  async #supplied(snapshot: VolumeSnapshot, contentName: string): Promise<void> {
    const { client, driver } = this.#options;
    const { namespace = '', name = '', uid = '' } = snapshot.metadata ?? {};
    const content = await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound);
    // the driver of the snapshot cannot be determined, so every instance waits
    if (content === undefined || content.spec.driver !== driver.name) return;
    const { volumeSnapshotRef: ref, source } = content.spec;
    if (source.snapshotHandle === undefined)
      throw new SnapshotProblem(
        'SnapshotContentMismatch',
        `VolumeSnapshotContent [${contentName}] is dynamically provisioned, and the snapshot wants one that is not`,
      );
    if (ref.name !== name || ref.namespace !== namespace || (ref.uid !== undefined && ref.uid !== '' && ref.uid !== uid))
      throw new SnapshotProblem('SnapshotContentMisbound', `VolumeSnapshotContent [${contentName}] is bound to a different snapshot`);
    await setFinalizers(client, { resource: volumeSnapshots, object: snapshot }, { add: [finalizers.source, finalizers.bound] });
    const bound =
      ref.uid === uid
        ? content
        : await client.patch(snapshotContents, { name: contentName }, 'merge', {
            metadata: { resourceVersion: content.metadata?.resourceVersion },
            spec: { volumeSnapshotRef: { uid } },
          });
    await this.#report(snapshot, bound);
  }

  /** Copies the status of the VolumeSnapshotContent to the VolumeSnapshot. */
  async #report(snapshot: VolumeSnapshot, { metadata, status }: VolumeSnapshotContent): Promise<void> {
    const { recorder, client } = this.#options;
    const { namespace = '', name = '' } = snapshot.metadata ?? {};
    const ready = status?.readyToUse === true;
    const desired: NonNullable<VolumeSnapshot['status']> = {
      boundVolumeSnapshotContentName: metadata?.name ?? '',
      readyToUse: ready,
      ...(status?.creationTime !== undefined && { creationTime: formatTime(Number(status.creationTime) / 1e6) }),
      ...(status?.restoreSize !== undefined && { restoreSize: quantityOf(status.restoreSize) }),
      ...(status?.error && { error: status.error }),
    };
    if (!same(snapshot.status, desired)) {
      await client.patch(
        volumeSnapshots,
        { namespace, name },
        'merge',
        { status: { ...desired, ...(status?.error === undefined && { error: null }) } },
        { subresource: 'status' },
      );
      if (ready && snapshot.status?.readyToUse !== true) {
        recorder.event(snapshot, 'Normal', 'SnapshotCreated', `Snapshot ${namespace}/${name} was successfully created by the CSI driver.`);
        recorder.event(snapshot, 'Normal', 'SnapshotReady', `Snapshot ${namespace}/${name} is ready to use.`);
      }
    }
    if (ready) await this.#freeClaims(namespace);
  }

  /** Removes a deleted VolumeSnapshot when its content is gone (deletionPolicy Delete) or at once (Retain), but not while a claim is filled from it. */
  async #leave(snapshot: VolumeSnapshot): Promise<void> {
    const { client, driver, recorder } = this.#options;
    const { namespace = '', name = '', uid = '' } = snapshot.metadata ?? {};
    const contentName =
      snapshot.status?.boundVolumeSnapshotContentName ?? snapshot.spec.source.volumeSnapshotContentName ?? `snapcontent-${uid}`;
    const content = await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound);
    if (content === undefined ? !this.#mayBeOurs(snapshot) : content.spec.driver !== driver.name) return;
    const filling = this.#caches.claims.list(namespace).find(({ spec, status }) => {
      const source = spec?.dataSource ?? spec?.dataSourceRef;
      return source?.kind === 'VolumeSnapshot' && source.name === name && status?.phase === 'Pending';
    });
    if (filling !== undefined) {
      recorder.event(snapshot, 'Warning', 'SnapshotDeletePending', 'Snapshot is being used to restore a PVC');
      return;
    }
    const isBound = content?.spec.volumeSnapshotRef.uid === uid;
    if (content !== undefined && isBound) {
      if (content.metadata?.annotations?.[notes.beingDeleted] !== 'yes')
        await client.patch(snapshotContents, { name: contentName }, 'merge', {
          metadata: { annotations: { [notes.beingDeleted]: 'yes' } },
        });
      if (content.spec.deletionPolicy === 'Delete') {
        if (content.metadata?.deletionTimestamp === undefined)
          await client.delete(snapshotContents, { name: contentName }).catch(ignoreNotFound);
        if ((await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound)) !== undefined) return; // its deletion adds the key again
      } else await setFinalizers(client, { resource: snapshotContents, object: content }, { remove: [finalizers.content] }).catch(conflict);
    }
    await setFinalizers(client, { resource: volumeSnapshots, object: snapshot }, { remove: [finalizers.source, finalizers.bound] });
    await this.#freeClaims(namespace);
  }

  /** Returns true if the VolumeSnapshot may belong to this driver, according to its volume or, if the volume is unknown, its VolumeSnapshotClass. */
  #mayBeOurs(snapshot: VolumeSnapshot): boolean {
    const { namespace = '' } = snapshot.metadata ?? {};
    const claim = this.#caches.claims.get(`${namespace}/${snapshot.spec.source.persistentVolumeClaimName}`);
    const volume = this.#caches.volumes.get(claim?.spec?.volumeName ?? '');
    if (volume !== undefined) return volume.spec?.csi?.driver === this.#options.driver.name;
    const named = this.#caches.classes.get(snapshot.spec.volumeSnapshotClassName ?? '');
    return named === undefined || named.driver === this.#options.driver.name;
  }

  /** Removes the finalizer of the namespace's PersistentVolumeClaims of which no snapshot is being taken any more. */
  async #freeClaims(namespace: string): Promise<void> {
    const { client } = this.#options;
    const { claims, snapshots } = this.#caches;
    for (const claim of claims.list(namespace)) {
      if (claim.metadata?.finalizers?.includes(finalizers.claim) !== true) continue;
      const taking = await Promise.all(
        snapshots
          .list(namespace)
          .filter(({ spec }) => spec.source.persistentVolumeClaimName === claim.metadata?.name)
          // the cache may not show the latest write yet
          .map(({ metadata }) => client.get(volumeSnapshots, { namespace, name: metadata?.name ?? '' }).catch(ignoreNotFound)),
      );
      if (taking.some((each) => each !== undefined && each.metadata?.deletionTimestamp === undefined && each.status?.readyToUse !== true))
        continue;
      await setFinalizers(client, { resource: persistentVolumeClaims, object: claim }, { remove: [finalizers.claim] });
    }
  }

  /**
   * Returns the volume to take a snapshot of; undefined if the volume does not belong to this driver instance.
   * @throws SnapshotProblem if the claim does not exist or is not bound
   */
  #volumeOf(snapshot: VolumeSnapshot, claim: PersistentVolumeClaim | undefined): PersistentVolume | undefined {
    const { driver } = this.#options;
    const name = snapshot.spec.source.persistentVolumeClaimName;
    const volume = this.#caches.volumes.get(claim?.spec?.volumeName ?? '');
    if (volume?.spec?.csi?.driver !== undefined && (volume.spec.csi.driver !== driver.name || !isHere(volume, driver))) return undefined;
    const named = this.#caches.classes.get(snapshot.spec.volumeSnapshotClassName ?? '');
    // no other controller reports this error
    if (volume === undefined && named?.driver !== driver.name) return undefined;
    if (claim === undefined)
      throw new SnapshotProblem(
        'SnapshotContentCreationFailed',
        `Failed to create snapshot content with error snapshot controller failed to update ${objectKey(snapshot)} on API server: cannot get claim from snapshot: persistentvolumeclaims "${name}" not found`,
      );
    if (claim.status?.phase !== 'Bound' || volume?.spec?.csi === undefined)
      throw new SnapshotProblem(
        'SnapshotContentCreationFailed',
        `the PVC ${name} is not yet bound to a PV of a CSI driver, will not attempt to take a snapshot`,
      );
    return volume;
  }

  /** Returns the VolumeSnapshotClass of a VolumeSnapshot. @throws SnapshotProblem if there is none */
  async #classOf(snapshot: VolumeSnapshot): Promise<VolumeSnapshotClass> {
    const { driver, client } = this.#options;
    const name = snapshot.spec.volumeSnapshotClassName;
    const { classes } = this.#caches;
    if (name !== undefined) {
      const found = classes.get(name);
      if (found === undefined)
        throw new SnapshotProblem(
          'GetSnapshotClassFailed',
          `Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "${name}" not found`,
        );
      if (found.driver !== driver.name)
        throw new SnapshotProblem(
          'SnapshotContentCreationFailed',
          `snapshot class ${name} is of the driver ${found.driver}, and the volume of ${driver.name}`,
        );
      return found;
    }
    const marked = classes
      .list()
      .filter((each) => each.driver === driver.name && each.metadata?.annotations?.[notes.defaultClass] === 'true');
    const [only] = marked;
    if (only === undefined || marked.length > 1)
      throw new SnapshotProblem(
        'SetDefaultSnapshotClassFailed',
        marked.length > 1 ? `${marked.length} default snapshot classes were found` : 'cannot find default snapshot class',
      );
    const { namespace = '', name: own = '' } = snapshot.metadata ?? {};
    await client.patch(volumeSnapshots, { namespace, name: own }, 'merge', { spec: { volumeSnapshotClassName: only.metadata?.name } });
    return only;
  }

  async #fail(snapshot: VolumeSnapshot, { reason, message }: SnapshotProblem): Promise<void> {
    const { client, recorder, clock } = this.#options;
    if (snapshot.status?.error?.message === message) return;
    const { namespace = '', name = '' } = snapshot.metadata ?? {};
    recorder.event(snapshot, 'Warning', reason, message);
    await client.patch(
      volumeSnapshots,
      { namespace, name },
      'merge',
      { status: { readyToUse: false, error: { message, time: formatTime(clock.now()) } } },
      { subresource: 'status' },
    );
  }
}

/** Ignores conflicts, because the event of the other client's write adds the key again. */
function conflict(error: unknown): undefined {
  if (isStatus(error, 'Conflict')) return undefined;
  throw error;
}
