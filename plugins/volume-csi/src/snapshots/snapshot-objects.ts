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
import { groupKeyOf } from '../snapshot-api/group-names.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';
import { handlesContent } from './snapshot-contents.ts';
import { SnapshotRelease } from './snapshot-release.ts';
import { same, SnapshotProblem } from './snapshot-status.ts';

/** Binds each VolumeSnapshot to a VolumeSnapshotContent, which this class creates or which already exists. */
export class SnapshotSync {
  readonly #options: SidecarOptions;
  readonly #caches: SnapshotCaches;
  readonly #release: SnapshotRelease;

  constructor(options: SidecarOptions, caches: SnapshotCaches) {
    this.#options = options;
    this.#caches = caches;
    this.#release = new SnapshotRelease(options, caches);
  }

  async look(key: string): Promise<void> {
    const { client } = this.#options;
    const { namespace = '', name } = splitKey(key);
    if (this.#caches.snapshots.get(key) === undefined) {
      await this.#release.claims(namespace);
      return;
    }
    const snapshot = await client.get(volumeSnapshots, { namespace, name }).catch(ignoreNotFound);
    if (snapshot === undefined) return;
    if (snapshot.metadata?.deletionTimestamp !== undefined) {
      await this.#release.snapshot(snapshot);
      return;
    }
    if (groupKeyOf(snapshot) !== undefined) {
      await this.#member(snapshot);
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

  /** Copies the status of a snapshot that belongs to a group. GroupSync creates and binds it. */
  async #member(snapshot: VolumeSnapshot): Promise<void> {
    const { client, driver } = this.#options;
    const name = snapshot.status?.boundVolumeSnapshotContentName;
    const content = name === undefined ? undefined : await client.get(snapshotContents, { name }).catch(ignoreNotFound);
    if (content?.spec.driver === driver.name) await this.#report(snapshot, content);
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
    if (content?.spec.driver !== driver.name || !handlesContent(content, this.#options)) return;
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
    if (ready) await this.#release.claims(namespace);
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
