import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { Sidecar, SidecarOptions } from '../sidecars/sidecar.ts';
import { WorkqueueController } from '../sidecars/workqueue-controller.ts';
import {
  groupClasses,
  groupContents,
  groupSnapshots,
  type VolumeGroupSnapshot,
  type VolumeGroupSnapshotContent,
} from '../snapshot-api/group-kinds.ts';
import { groupKeyOf, groupNotes } from '../snapshot-api/group-names.ts';
import { volumeSnapshots } from '../snapshot-api/snapshot-kinds.ts';
import type { GroupCaches } from './group-caches.ts';
import { GroupContentSync } from './group-content-sync.ts';
import { GroupSync } from './group-sync.ts';

const ofGroup = 'group ';
const ofContent = 'content ';

/**
 * Does the part of Kubernetes' snapshot-controller that binds VolumeGroupSnapshots to VolumeGroupSnapshotContents (`groups`), or the part of
 * external-snapshotter that creates and deletes groups of snapshots in the driver (`contents`). Starts when the kinds are served.
 */
export class GroupSnapshotter implements Sidecar {
  readonly #controller: WorkqueueController;
  readonly #caches: GroupCaches;
  readonly #part: 'groups' | 'contents';

  constructor(options: SidecarOptions, part: 'groups' | 'contents') {
    const { informers, clock, log, driver } = options;
    this.#part = part;
    this.#caches = {
      groups: informers.forResource(groupSnapshots),
      contents: informers.forResource(groupContents),
      classes: informers.forResource(groupClasses),
      snapshots: informers.forResource(volumeSnapshots),
      claims: informers.forResource(persistentVolumeClaims),
      volumes: informers.forResource(persistentVolumes),
    };
    const groups = new GroupSync(options, this.#caches);
    const contents = new GroupContentSync(options, this.#caches, (name, ms) => this.#controller.addAfter(`${ofContent}${name}`, ms));
    this.#controller = new WorkqueueController({
      name: `group-${part}-${driver.name}`,
      clock,
      log,
      caches: Object.values(this.#caches) as readonly Informer[],
      reconcile: (key) =>
        key.startsWith(ofGroup) ? groups.reconcile(key.slice(ofGroup.length)) : contents.reconcile(key.slice(ofContent.length)),
    });
  }

  start(): void {
    const { groups, contents, classes, snapshots, claims } = this.#caches;
    const add = (key: string) => {
      if (key.startsWith(ofGroup) === (this.#part === 'groups')) this.#controller.add(key);
    };
    const group = (object: VolumeGroupSnapshot) => add(`${ofGroup}${objectKey(object)}`);
    const content = ({ metadata, spec: { volumeGroupSnapshotRef: ref } }: VolumeGroupSnapshotContent, old?: VolumeGroupSnapshotContent) => {
      // a status update of this controller is no reason to retry
      if (old === undefined || stageOf({ metadata }) !== stageOf(old)) add(`${ofContent}${metadata?.name}`);
      if (ref.name !== undefined) add(`${ofGroup}${ref.namespace}/${ref.name}`);
    };
    const claim = ({ metadata }: PersistentVolumeClaim) => {
      for (const each of groups.list(metadata?.namespace))
        if (isUnbound(each) || each.metadata?.deletionTimestamp !== undefined) group(each);
    };
    this.#controller.start(
      groups.addEventHandler({ onAdd: group, onUpdate: group, onDelete: group }),
      contents.addEventHandler({
        onAdd: (now) => content(now),
        onUpdate: (now, old) => content(now, now === old ? undefined : old),
        onDelete: (now) => content(now),
      }),
      classes.addEventHandler({
        onAdd: () => {
          for (const each of groups.list()) if (isUnbound(each)) group(each);
        },
      }),
      // a group that is being deleted waits until no claim is filled from its snapshots
      snapshots.addEventHandler({
        onDelete: (snapshot) => {
          const key = groupKeyOf(snapshot);
          if (key !== undefined) add(`${ofGroup}${key}`);
        },
      }),
      claims.addEventHandler({ onAdd: claim, onUpdate: (now, old) => now !== old && claim(now), onDelete: claim }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }
}

const isUnbound = ({ status }: VolumeGroupSnapshot) => status?.boundVolumeGroupSnapshotContentName === undefined;

/** Returns the fields of a VolumeGroupSnapshotContent. If one of them changes, the controller reconciles the content again. */
const stageOf = ({ metadata }: { readonly metadata?: VolumeGroupSnapshotContent['metadata'] | undefined }) =>
  `${metadata?.generation} ${metadata?.deletionTimestamp !== undefined} ${metadata?.annotations?.[groupNotes.beingDeleted]}`;
