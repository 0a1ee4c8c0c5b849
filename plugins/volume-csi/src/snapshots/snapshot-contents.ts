import { secretReference } from '@oarlock/api/component-helpers/class-secrets';
import { formatTime } from '@oarlock/api/values/time';
import type { CsiSnapshot, Strings } from '@oarlock/csi/csi-types';
import { callErrorText } from '../volume/call-error-text.ts';
import { driverParameters, readSecrets } from '../volume/secrets.ts';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import { snapshotContents, type VolumeSnapshotContent } from '../snapshot-api/snapshot-kinds.ts';
import { finalizers, ignoreNotFound, notes, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import { isInGroup } from '../snapshot-api/group-names.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';
import { nanosecondsOf } from './snapshot-status.ts';

/** How often the driver is queried for a snapshot that is not ready yet. Milliseconds. */
const askAgainMs = 1_000;

/**
 * Returns true if this node handles the content. If volumes belong to nodes, so do their snapshots: the label names the node, also of a content that
 * an administrator has written, as for upstream's external-snapshotter with `--node-deployment`.
 */
export function handlesContent({ metadata }: VolumeSnapshotContent, { driver, nodeName }: SidecarOptions): boolean {
  if (driver.node.accessibleTopology === undefined || driver.config.central) return true;
  return metadata?.labels?.[notes.managedBy] === nodeName;
}

/** Creates the snapshots of VolumeSnapshotContents in the driver, and deletes the snapshots with their VolumeSnapshotContents. */
export class ContentSync {
  readonly #options: SidecarOptions;
  readonly #caches: SnapshotCaches;
  readonly #again: (name: string, ms: number) => void;

  constructor(options: SidecarOptions, caches: SnapshotCaches, again: (name: string, ms: number) => void) {
    this.#options = options;
    this.#caches = caches;
    this.#again = again;
  }

  async look(name: string): Promise<void> {
    const { client, driver, recorder, clock } = this.#options;
    if (this.#caches.contents.get(name) === undefined) return;
    const content = await client.get(snapshotContents, { name }).catch(ignoreNotFound);
    if (content?.spec.driver !== driver.name || !handlesContent(content, this.#options)) return;
    try {
      if (content.metadata?.deletionTimestamp !== undefined) await this.#remove(content);
      // the driver takes a snapshot of a group with the group
      else if (content.status?.readyToUse !== true && !isInGroup(content)) await this.#make(content);
    } catch (error) {
      const message = callErrorText(error);
      const deleting = content.metadata?.deletionTimestamp !== undefined;
      const [reason, what] = deleting
        ? ['SnapshotDeleteError', 'Failed to delete snapshot']
        : ['SnapshotCreationFailed', `Failed to create snapshot: ${message}`];
      recorder.event(content, 'Warning', reason ?? '', what ?? '');
      if (content.status?.error?.message !== what)
        await client
          .patch(
            snapshotContents,
            { name },
            'merge',
            { status: { readyToUse: false, error: { message: what, time: formatTime(clock.now()) } } },
            { subresource: 'status' },
          )
          .catch(ignoreNotFound);
      throw error;
    }
  }

  async #make(content: VolumeSnapshotContent): Promise<void> {
    const { client, driver } = this.#options;
    const { metadata, spec } = content;
    const name = metadata?.name ?? '';
    // the finalizer is set before the call: a snapshot in the driver must not be forgotten
    const held = await setFinalizers(client, { resource: snapshotContents, object: content }, { add: [finalizers.content] });
    if (held === undefined) return;
    const secrets = await this.#secrets(content);
    let snapshot: Pick<CsiSnapshot, 'snapshotId' | 'readyToUse'> & Partial<CsiSnapshot>;
    if (spec.source.volumeHandle !== undefined) {
      const parameters = this.#caches.classes.get(spec.volumeSnapshotClassName ?? '')?.parameters;
      snapshot = await driver.client.createSnapshot({
        sourceVolumeId: spec.source.volumeHandle,
        name: `snapshot-${spec.volumeSnapshotRef.uid}`,
        parameters: driverParameters(parameters),
        secrets,
      });
    } else {
      const snapshotId = spec.source.snapshotHandle ?? '';
      if (driver.controllerCapabilities.has('LIST_SNAPSHOTS')) {
        const found = await driver.client.snapshot(snapshotId, secrets);
        if (found === undefined) throw new Error(`the driver has no snapshot ${snapshotId}`);
        snapshot = found;
      } else snapshot = { snapshotId, readyToUse: true };
    }
    const { snapshotId, readyToUse, sizeBytes, creationTime } = snapshot;
    await client.patch(
      snapshotContents,
      { name },
      'merge',
      {
        status: {
          snapshotHandle: snapshotId,
          readyToUse,
          ...(creationTime && { creationTime: nanosecondsOf(creationTime) }),
          ...(sizeBytes !== undefined && { restoreSize: sizeBytes }),
          error: null,
        },
      },
      { subresource: 'status' },
    );
    if (!readyToUse) this.#again(name, askAgainMs);
  }

  async #remove(content: VolumeSnapshotContent): Promise<void> {
    const { client, driver } = this.#options;
    const { metadata, spec, status } = content;
    if (metadata?.finalizers?.includes(finalizers.content) !== true) return;
    const bound = this.#caches.snapshots.get(`${spec.volumeSnapshotRef.namespace}/${spec.volumeSnapshotRef.name}`);
    // a user deleted the content of a snapshot that stays: it waits for the snapshot
    if (bound !== undefined && bound.metadata?.uid === spec.volumeSnapshotRef.uid && metadata.annotations?.[notes.beingDeleted] !== 'yes')
      return;
    const handle = status?.snapshotHandle ?? spec.source.snapshotHandle;
    // the driver deletes a snapshot of a group with the group
    if (spec.deletionPolicy === 'Delete' && !isInGroup(content)) {
      if (handle !== undefined) await driver.client.deleteSnapshot(handle, await this.#secrets(content));
      // the response of an earlier call may have been lost: the same name returns the same snapshot
      else if (spec.source.volumeHandle !== undefined && this.#has(spec.source.volumeHandle)) {
        const { snapshotId } = await driver.client.createSnapshot({
          sourceVolumeId: spec.source.volumeHandle,
          name: `snapshot-${spec.volumeSnapshotRef.uid}`,
          secrets: await this.#secrets(content),
        });
        await driver.client.deleteSnapshot(snapshotId, await this.#secrets(content));
      }
    }
    await setFinalizers(client, { resource: snapshotContents, object: content }, { remove: [finalizers.content] });
  }

  #has(volumeHandle: string): boolean {
    return this.#caches.volumes
      .list()
      .some(({ spec }) => spec?.csi?.driver === this.#options.driver.name && spec.csi.volumeHandle === volumeHandle);
  }

  async #secrets({ metadata, spec }: VolumeSnapshotContent): Promise<Strings> {
    const { client } = this.#options;
    const [name, namespace] = [metadata?.annotations?.[notes.deletionSecretName], metadata?.annotations?.[notes.deletionSecretNamespace]];
    if (name !== undefined && namespace !== undefined) return readSecrets(client, { ref: { name, namespace }, reader: 'sidecar' });
    const parameters = this.#caches.classes.get(spec.volumeSnapshotClassName ?? '')?.parameters;
    const ref = secretReference(parameters, 'snapshotter', {
      'volumesnapshot.name': spec.volumeSnapshotRef.name ?? '',
      'volumesnapshot.namespace': spec.volumeSnapshotRef.namespace ?? '',
      'volumesnapshotcontent.name': metadata?.name ?? '',
    });
    return readSecrets(client, { ref, reader: 'sidecar' });
  }
}
