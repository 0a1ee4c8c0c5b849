import { secretReference } from '@oarlock/api/component-helpers/class-secrets';
import { objectKey, splitKey } from '@oarlock/api/object';
import { formatLabelSelector } from '@oarlock/api/selectors/format-label-selector';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { formatTime } from '@oarlock/api/values/time';
import { errorText } from '@oarlock/primitives/error-text';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import {
  groupContents,
  groupSnapshotGroup,
  groupSnapshots,
  type VolumeGroupSnapshot,
  type VolumeGroupSnapshotClass,
  type VolumeGroupSnapshotContent,
} from '../snapshot-api/group-kinds.ts';
import { groupFinalizers, groupNotes } from '../snapshot-api/group-names.ts';
import { ignoreNotFound, notes, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import { SnapshotProblem } from '../snapshots/snapshot-status.ts';
import { isHere } from '../volume/provisioned-volume.ts';
import type { GroupCaches } from './group-caches.ts';
import { releaseGroup } from './group-deletion.ts';
import { writeMembers } from './group-members.ts';

/** The maximum number of snapshots in a group, as in the API of Kubernetes' external-snapshotter. */
const maxMembers = 100;

/** Binds each VolumeGroupSnapshot to a VolumeGroupSnapshotContent, which this class creates or which already exists. */
export class GroupSync {
  readonly #options: SidecarOptions;
  readonly #caches: GroupCaches;

  constructor(options: SidecarOptions, caches: GroupCaches) {
    this.#options = options;
    this.#caches = caches;
  }

  async reconcile(key: string): Promise<void> {
    const { client } = this.#options;
    const { namespace = '', name } = splitKey(key);
    if (this.#caches.groups.get(key) === undefined) return;
    const group = await client.get(groupSnapshots, { namespace, name }).catch(ignoreNotFound);
    if (group === undefined) return;
    if (group.metadata?.deletionTimestamp !== undefined) {
      await releaseGroup(group, this.#options, this.#caches);
      return;
    }
    try {
      const supplied = group.spec.source.volumeGroupSnapshotContentName;
      await (supplied === undefined ? this.#dynamic(group) : this.#supplied(group, supplied));
    } catch (error) {
      if (!(error instanceof SnapshotProblem)) throw error;
      await this.#fail(group, error);
      throw error;
    }
  }

  async #dynamic(group: VolumeGroupSnapshot): Promise<void> {
    const { client, driver } = this.#options;
    const name = `groupsnapcontent-${group.metadata?.uid}`;
    let content = await client.get(groupContents, { name }).catch(ignoreNotFound);
    if (content === undefined) {
      const groupClass = await this.#classOf(group);
      if (groupClass === undefined) return; // of another driver
      content = await this.#createContent(group, groupClass, name);
      if (content === undefined) return; // of another node
    }
    if (content.spec.driver !== driver.name) return;
    const { volumeGroupSnapshotRef: ref } = content.spec;
    if (ref.uid !== group.metadata?.uid || ref.name !== group.metadata?.name || ref.namespace !== group.metadata?.namespace)
      throw new SnapshotProblem(
        'GroupSnapshotContentMisbound',
        `VolumeGroupSnapshotContent [${name}] is bound to a different group snapshot`,
      );
    const handles = new Map(this.#caches.volumes.list().flatMap((volume) => this.#entryOf(volume)));
    await writeMembers({ client, group, content, volumeOf: (handle) => handles.get(handle) });
    await this.#report(group, content);
  }
  #entryOf(volume: PersistentVolume): readonly (readonly [string, PersistentVolume])[] {
    const csi = volume.spec?.csi;
    return csi?.driver === this.#options.driver.name ? [[csi.volumeHandle, volume]] : [];
  }

  async #supplied(group: VolumeGroupSnapshot, contentName: string): Promise<void> {
    const { client, driver } = this.#options;
    const { namespace = '', name = '', uid = '' } = group.metadata ?? {};
    const content = await client.get(groupContents, { name: contentName }).catch(ignoreNotFound);
    // the driver of the group cannot be determined, so every instance waits
    if (content === undefined || content.spec.driver !== driver.name) return;
    const { volumeGroupSnapshotRef: ref, source } = content.spec;
    if (source.groupSnapshotHandles === undefined)
      throw new SnapshotProblem(
        'GroupSnapshotContentMismatch',
        'VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one',
      );
    if (ref.name !== name || ref.namespace !== namespace || (ref.uid !== undefined && ref.uid !== '' && ref.uid !== uid))
      throw new SnapshotProblem(
        'GroupSnapshotContentMisbound',
        `VolumeGroupSnapshotContent [${contentName}] is bound to a different group snapshot`,
      );
    await setFinalizers(client, { resource: groupSnapshots, object: group }, { add: [groupFinalizers.bound] });
    const { resourceVersion } = content.metadata ?? {};
    const bound =
      ref.uid === uid
        ? content
        : await client.patch(groupContents, { name: contentName }, 'merge', {
            metadata: { resourceVersion },
            spec: { volumeGroupSnapshotRef: { uid } },
          });
    await this.#report(group, bound);
  }

  /** Creates the content of a group. Returns undefined if another node has the volumes. @throws SnapshotProblem if the group cannot be taken */
  async #createContent(
    group: VolumeGroupSnapshot,
    { metadata, deletionPolicy, parameters }: VolumeGroupSnapshotClass,
    contentName: string,
  ): Promise<VolumeGroupSnapshotContent | undefined> {
    const { client, driver, recorder, nodeName } = this.#options;
    const { namespace = '', name = '', uid = '' } = group.metadata ?? {};
    const volumes = this.#volumesOf(group);
    if (!volumes.some((volume) => isHere(volume, driver))) return undefined;
    this.#checkVolumes(group, volumes);
    const secret = secretReference(parameters, 'group-snapshotter', {
      'volumegroupsnapshot.name': name,
      'volumegroupsnapshot.namespace': namespace,
      'volumegroupsnapshotcontent.name': contentName,
    });
    await setFinalizers(client, { resource: groupSnapshots, object: group }, { add: [groupFinalizers.bound] });
    const created = await client
      .create(groupContents, {
        apiVersion: `${groupSnapshotGroup}/v1`,
        kind: 'VolumeGroupSnapshotContent',
        metadata: {
          name: contentName,
          finalizers: [groupFinalizers.content],
          ...(driver.node.accessibleTopology !== undefined && !driver.config.central && { labels: { [notes.managedBy]: nodeName } }),
          ...(secret && {
            annotations: {
              [groupNotes.deletionSecretName]: secret.name ?? '',
              [groupNotes.deletionSecretNamespace]: secret.namespace ?? '',
            },
          }),
        },
        spec: {
          deletionPolicy,
          driver: driver.name,
          source: { volumeHandles: volumes.map(({ spec }) => spec?.csi?.volumeHandle ?? '') },
          volumeGroupSnapshotClassName: metadata?.name ?? '',
          volumeGroupSnapshotRef: { apiVersion: `${groupSnapshotGroup}/v1`, kind: 'VolumeGroupSnapshot', name, namespace, uid },
        },
      })
      .catch((error: unknown) => {
        if (!isStatus(error, 'AlreadyExists')) throw error;
        return client.get(groupContents, { name: contentName });
      });
    const message = `Waiting for a group snapshot ${namespace}/${name} to be created by the CSI driver.`;
    recorder.event(group, 'Normal', 'CreatingGroupSnapshot', message);
    return created;
  }

  /** Returns the volumes of the claims that the group selects. @throws SnapshotProblem if there are none, or a claim is not bound */
  #volumesOf(group: VolumeGroupSnapshot): readonly PersistentVolume[] {
    const { namespace = '' } = group.metadata ?? {};
    const selector = selectorFromLabelSelector(group.spec.source.selector);
    const claims = this.#caches.claims.list(namespace).filter(({ metadata }) => selector.matches(metadata?.labels ?? {}));
    if (claims.length === 0)
      throw problem(group, `label selector ${formatLabelSelector(group.spec.source.selector)} for group snapshot not applied to any PVC`);
    if (claims.length > maxMembers) throw problem(group, `the label selector selects ${claims.length} PVCs, the maximum is ${maxMembers}`);
    return claims.map(({ metadata, spec, status }) => {
      if (status?.phase !== 'Bound')
        throw problem(group, `the PVC ${metadata?.name} is not yet bound to a PV, will not attempt to take a group snapshot`);
      const volume = this.#caches.volumes.get(spec?.volumeName ?? '');
      if (volume === undefined) throw problem(group, `failed to retrieve PV ${spec?.volumeName} from the API server`);
      if (volume.spec?.claimRef?.uid !== undefined && volume.spec.claimRef.uid !== metadata?.uid)
        throw problem(group, 'claim in dataSource not bound or invalid');
      return volume;
    });
  }

  #checkVolumes(group: VolumeGroupSnapshot, volumes: readonly PersistentVolume[]): void {
    const { driver, recorder } = this.#options;
    const reject = (event: string, text: string) => {
      recorder.event(group, 'Warning', 'CreateGroupSnapshotContentFailed', event);
      throw new SnapshotProblem(failed, `failed to create group snapshot content with error ${text}`);
    };
    for (const volume of volumes) {
      const name = volume.metadata?.name;
      const csi = volume.spec?.csi;
      if (csi === undefined)
        return reject(
          `Cannot snapshot a non-CSI volume: ${name}`,
          `cannot snapshot a non-CSI volume for group snapshot ${objectKey(group)}: ${name}`,
        );
      if (csi.driver !== driver.name) {
        const text = `Volume CSI driver (${csi.driver}) mismatch with VolumeGroupSnapshotClass (${driver.name}) ${objectKey(group)}: ${name}`;
        reject(text, text);
      }
      if (!isHere(volume, driver)) {
        const text = `volume ${name} is not on node ${this.#options.nodeName}, as other volumes of group snapshot ${objectKey(group)} are`;
        reject(text, text);
      }
    }
  }

  /** Returns the class of a group; undefined if it belongs to another driver. @throws SnapshotProblem if there is none */
  async #classOf(group: VolumeGroupSnapshot): Promise<VolumeGroupSnapshotClass | undefined> {
    const { driver, client } = this.#options;
    const { classes } = this.#caches;
    const name = group.spec.volumeGroupSnapshotClassName;
    if (name !== undefined) {
      const found = classes.get(name);
      if (found === undefined) throw problem(group, `volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "${name}" not found`);
      return found.driver === driver.name ? found : undefined;
    }
    const [volume] = this.#volumesOf(group);
    if (volume?.spec?.csi?.driver !== driver.name) return undefined;
    const marked = classes
      .list()
      .filter((each) => each.driver === driver.name && each.metadata?.annotations?.[groupNotes.defaultClass] === 'true');
    const [only] = marked;
    if (only === undefined || marked.length > 1)
      throw new SnapshotProblem(
        'SetDefaultGroupSnapshotClassFailed',
        `Failed to set default group snapshot class with error ${marked.length > 1 ? `${marked.length} default snapshot classes were found` : 'cannot find default group snapshot class'}`,
      );
    const { namespace = '', name: own = '' } = group.metadata ?? {};
    const spec = { volumeGroupSnapshotClassName: only.metadata?.name };
    await client.patch(groupSnapshots, { namespace, name: own }, 'merge', { spec });
    return only;
  }

  /** Copies the status of the content to the VolumeGroupSnapshot. */
  async #report(group: VolumeGroupSnapshot, { metadata, status }: VolumeGroupSnapshotContent): Promise<void> {
    const { recorder, client } = this.#options;
    const { namespace = '', name = '' } = group.metadata ?? {};
    const readyToUse = status?.readyToUse === true;
    const before = group.status;
    const bound = metadata?.name ?? '';
    const same =
      before?.boundVolumeGroupSnapshotContentName === bound &&
      before.readyToUse === readyToUse &&
      before.creationTime === status?.creationTime &&
      before.error?.message === status?.error?.message;
    if (same) return;
    const desired = {
      boundVolumeGroupSnapshotContentName: bound,
      readyToUse,
      error: status?.error ?? null,
      ...(status?.creationTime !== undefined && { creationTime: status.creationTime }),
    };
    await client.patch(groupSnapshots, { namespace, name }, 'merge', { status: desired }, { subresource: 'status' });
    if (status?.creationTime !== undefined && before?.creationTime === undefined) {
      const message = `GroupSnapshot ${namespace}/${name} was successfully created by the CSI driver.`;
      recorder.event(group, 'Normal', 'GroupSnapshotCreated', message);
    }
    if (readyToUse && before?.readyToUse !== true)
      recorder.event(group, 'Normal', 'GroupSnapshotReady', `GroupSnapshot ${namespace}/${name} is ready to use.`);
  }

  async #fail(group: VolumeGroupSnapshot, error: SnapshotProblem): Promise<void> {
    const { client, recorder, clock } = this.#options;
    const message = errorText(error);
    if (group.status?.error?.message === message) return;
    const { namespace = '', name = '' } = group.metadata ?? {};
    recorder.event(group, 'Warning', error.reason, message);
    const status = { readyToUse: false, error: { message, time: formatTime(clock.now()) } };
    await client.patch(groupSnapshots, { namespace, name }, 'merge', { status }, { subresource: 'status' });
  }
}

const failed = 'GroupSnapshotContentCreationFailed';
const problem = ({ metadata }: VolumeGroupSnapshot, text: string) =>
  new SnapshotProblem(
    failed,
    `failed to create group snapshot content with error failed to get input parameters to create group snapshot ${metadata?.name}: ${JSON.stringify(text)}`,
  );
