import { formatTime } from '@oarlock/api/values/time';
import type { CsiGroupSnapshot, Strings } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import { groupContents, type VolumeGroupSnapshotContent, type VolumeSnapshotInfo } from '../snapshot-api/group-kinds.ts';
import { groupFinalizers, groupNotes } from '../snapshot-api/group-names.ts';
import { ignoreNotFound, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import { nanosecondsOf } from '../snapshots/snapshot-status.ts';
import { callErrorText } from '../volume/call-error-text.ts';
import { driverParameters, readSecrets } from '../volume/secrets.ts';
import type { GroupCaches } from './group-caches.ts';

/** How often the driver is queried for a group that is not ready yet. Milliseconds. */
const askAgainMs = 1_000;
/** After these errors the driver may still be working on the call (csi-lib-utils, IsFinalError). */
const notFinal: ReadonlySet<string> = new Set(['CANCELLED', 'DEADLINE_EXCEEDED', 'UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'ABORTED']);

/** Creates the groups of VolumeGroupSnapshotContents in the driver, and deletes the groups with their VolumeGroupSnapshotContents. */
export class GroupContentSync {
  readonly #options: SidecarOptions;
  readonly #caches: GroupCaches;
  readonly #again: (name: string, ms: number) => void;

  constructor(options: SidecarOptions, caches: GroupCaches, again: (name: string, ms: number) => void) {
    this.#options = options;
    this.#caches = caches;
    this.#again = again;
  }

  async reconcile(name: string): Promise<void> {
    const { client, driver } = this.#options;
    if (this.#caches.contents.get(name) === undefined) return;
    const content = await client.get(groupContents, { name }).catch(ignoreNotFound);
    if (content?.spec.driver !== driver.name) return;
    const deleting = content.metadata?.deletionTimestamp !== undefined;
    try {
      if (deleting) await this.#remove(content);
      else if (content.status?.readyToUse !== true) await this.#create(content);
    } catch (error) {
      await this.#fail(content, error, deleting);
      throw error;
    }
  }

  async #create(content: VolumeGroupSnapshotContent): Promise<void> {
    const { client, driver } = this.#options;
    const { metadata, spec, status } = content;
    const name = metadata?.name ?? '';
    // the finalizer is set before the call: a group in the driver must not be forgotten
    const held = await setFinalizers(client, { resource: groupContents, object: content }, { add: [groupFinalizers.content] });
    if (held === undefined) return;
    const secrets = await this.#secrets(held);
    const { volumeHandles, groupSnapshotHandles: existing } = spec.source;
    const known = status?.volumeGroupSnapshotHandle;
    let group: CsiGroupSnapshot;
    if (volumeHandles !== undefined && known === undefined) group = await this.#take(held, volumeHandles, secrets);
    else
      group = await driver.client.getVolumeGroupSnapshot({
        groupSnapshotId: known ?? existing?.volumeGroupSnapshotHandle ?? '',
        snapshotIds: snapshotIdsOf(content),
        secrets,
      });
    await this.#patchStatus(name, {
      volumeGroupSnapshotHandle: group.groupSnapshotId,
      readyToUse: group.readyToUse,
      creationTime: formatTime(group.creationTime ? group.creationTime.seconds * 1000 : this.#options.clock.now()),
      volumeSnapshotInfoList: group.snapshots.map(infoOf),
      error: null,
    });
    if (!group.readyToUse) this.#again(name, askAgainMs);
  }

  /** Calls CreateVolumeGroupSnapshot. The annotation records that the driver may have the group, until the call succeeds or finally fails. */
  async #take(content: VolumeGroupSnapshotContent, volumeHandles: readonly string[], secrets: Strings): Promise<CsiGroupSnapshot> {
    const { driver } = this.#options;
    const { spec } = content;
    const name = content.metadata?.name ?? '';
    const parameters = this.#caches.classes.get(spec.volumeGroupSnapshotClassName ?? '')?.parameters;
    await this.#annotate(name, 'yes');
    try {
      const group = await driver.client.createVolumeGroupSnapshot({
        name: `groupsnapshot-${spec.volumeGroupSnapshotRef.uid}`,
        sourceVolumeIds: volumeHandles,
        parameters: driverParameters(parameters),
        secrets,
      });
      await this.#annotate(name, null);
      return group;
    } catch (error) {
      if (error instanceof GrpcError && !notFinal.has(error.code)) await this.#annotate(name, null);
      const text = `failed to take group snapshot of the volumes [${volumeHandles.join(' ')}]: ${JSON.stringify(callErrorText(error))}`;
      throw new Error(text, { cause: error });
    }
  }

  async #remove(content: VolumeGroupSnapshotContent): Promise<void> {
    const { client, driver } = this.#options;
    const { metadata, spec, status } = content;
    if (metadata?.finalizers?.includes(groupFinalizers.content) !== true) return;
    const { volumeGroupSnapshotRef: ref, source } = spec;
    const bound = this.#caches.groups.get(`${ref.namespace}/${ref.name}`);
    // a user deleted the content of a group that stays: it waits for the VolumeGroupSnapshot
    if (bound?.metadata?.uid !== undefined && bound.metadata.uid === ref.uid && metadata.annotations?.[groupNotes.beingDeleted] !== 'yes')
      return;
    if (spec.deletionPolicy === 'Delete') {
      const secrets = await this.#secrets(content);
      const handle = status?.volumeGroupSnapshotHandle ?? source.groupSnapshotHandles?.volumeGroupSnapshotHandle;
      if (handle !== undefined)
        await driver.client.deleteVolumeGroupSnapshot({ groupSnapshotId: handle, snapshotIds: snapshotIdsOf(content), secrets });
      else if (metadata.annotations?.[groupNotes.beingCreated] === 'yes' && source.volumeHandles !== undefined) {
        // the response of an earlier call may have been lost: the same name returns the same group
        const { groupSnapshotId, snapshots } = await this.#take(content, source.volumeHandles, secrets);
        const snapshotIds = snapshots.map(({ snapshotId }) => snapshotId);
        await driver.client.deleteVolumeGroupSnapshot({ groupSnapshotId, snapshotIds, secrets });
      }
    }
    await setFinalizers(client, { resource: groupContents, object: await this.#latest(content) }, { remove: [groupFinalizers.content] });
  }

  async #fail(content: VolumeGroupSnapshotContent, error: unknown, deleting: boolean): Promise<void> {
    const { recorder, clock } = this.#options;
    const message = deleting ? 'Failed to delete group snapshot' : `Failed to create group snapshot: ${callErrorText(error)}`;
    recorder.event(content, 'Warning', deleting ? 'GroupSnapshotDeleteError' : 'GroupSnapshotCreationFailed', message);
    if (content.status?.error?.message === message) return;
    await this.#patchStatus(content.metadata?.name ?? '', { readyToUse: false, error: { message, time: formatTime(clock.now()) } });
  }

  /** Returns the content as the API has it, because the annotation may have been written since it was read. */
  async #latest(content: VolumeGroupSnapshotContent): Promise<VolumeGroupSnapshotContent> {
    const { client } = this.#options;
    return (await client.get(groupContents, { name: content.metadata?.name ?? '' }).catch(ignoreNotFound)) ?? content;
  }
  async #annotate(name: string, value: 'yes' | null): Promise<void> {
    const annotations = { [groupNotes.beingCreated]: value };
    await this.#options.client.patch(groupContents, { name }, 'merge', { metadata: { annotations } }).catch(ignoreNotFound);
  }
  async #patchStatus(name: string, status: object): Promise<void> {
    await this.#options.client.patch(groupContents, { name }, 'merge', { status }, { subresource: 'status' }).catch(ignoreNotFound);
  }

  async #secrets({ metadata }: VolumeGroupSnapshotContent): Promise<Strings> {
    const [name, namespace] = [groupNotes.deletionSecretName, groupNotes.deletionSecretNamespace].map(
      (key) => metadata?.annotations?.[key],
    );
    const ref = name !== undefined && namespace !== undefined ? { name, namespace } : undefined;
    return readSecrets(this.#options.client, { ref, reader: 'sidecar' });
  }
}

const snapshotIdsOf = ({ spec, status }: VolumeGroupSnapshotContent): readonly string[] =>
  status?.volumeSnapshotInfoList?.flatMap(({ snapshotHandle }) => snapshotHandle ?? []) ??
  spec.source.groupSnapshotHandles?.volumeSnapshotHandles ??
  [];

const infoOf = ({
  snapshotId,
  sourceVolumeId,
  creationTime,
  readyToUse,
  sizeBytes,
}: CsiGroupSnapshot['snapshots'][number]): VolumeSnapshotInfo => ({
  volumeHandle: sourceVolumeId,
  snapshotHandle: snapshotId,
  readyToUse,
  restoreSize: sizeBytes,
  ...(creationTime && { creationTime: nanosecondsOf(creationTime) }),
});
