import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { Sidecar, SidecarOptions } from '../sidecars/sidecar.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';
import { ContentSync } from './snapshot-contents.ts';
import {
  snapshotClasses,
  snapshotContents,
  snapshotGroup,
  volumeSnapshots,
  type VolumeSnapshot,
  type VolumeSnapshotContent,
} from '../snapshot-api/snapshot-kinds.ts';
import { notes } from '../snapshot-api/snapshot-names.ts';
import { SnapshotSync } from './snapshot-objects.ts';
import { WorkqueueController } from '../sidecars/workqueue-controller.ts';

const ofSnapshot = 'snapshot ';
const ofContent = 'content ';

/**
 * Does the work of Kubernetes' snapshot-controller, which binds VolumeSnapshots to VolumeSnapshotContents (`snapshots`), or of external-snapshotter,
 * which creates and deletes snapshots in the driver (`contents`). Starts when the kinds are served.
 */
export class Snapshotter implements Sidecar {
  readonly #controller: WorkqueueController;
  readonly #caches: SnapshotCaches;
  readonly #part: 'snapshots' | 'contents';

  constructor(options: SidecarOptions, part: 'snapshots' | 'contents') {
    const { informers, clock, log, driver } = options;
    this.#part = part;
    this.#caches = {
      snapshots: informers.forResource(volumeSnapshots),
      contents: informers.forResource(snapshotContents),
      classes: informers.forResource(snapshotClasses),
      claims: informers.forResource(persistentVolumeClaims),
      volumes: informers.forResource(persistentVolumes),
    };
    const snapshots = new SnapshotSync(options, this.#caches);
    const contents = new ContentSync(options, this.#caches, (name, ms) => this.#controller.addAfter(`${ofContent}${name}`, ms));
    this.#controller = new WorkqueueController({
      name: `${part}-${driver.name}`,
      clock,
      log,
      caches: Object.values(this.#caches) as readonly Informer[],
      reconcile: (key) =>
        key.startsWith(ofSnapshot) ? snapshots.look(key.slice(ofSnapshot.length)) : contents.look(key.slice(ofContent.length)),
    });
  }

  start(): void {
    const { snapshots, contents, classes, claims } = this.#caches;
    const add = (key: string) => {
      if (key.startsWith(ofSnapshot) === (this.#part === 'snapshots')) this.#controller.add(key);
    };
    const snapshot = (object: VolumeSnapshot) => add(`${ofSnapshot}${objectKey(object)}`);
    const content = ({ metadata, spec: { volumeSnapshotRef: ref } }: VolumeSnapshotContent, old?: VolumeSnapshotContent) => {
      // a status update of this controller is no reason to retry
      if (old === undefined || stageOf({ ...(metadata && { metadata }) }) !== stageOf(old)) add(`${ofContent}${metadata?.name}`);
      if (ref.name !== undefined) add(`${ofSnapshot}${ref.namespace}/${ref.name}`);
    };
    const claim = ({ metadata, spec }: PersistentVolumeClaim) => {
      const source = spec?.dataSource ?? spec?.dataSourceRef;
      // a snapshot that is being deleted waits until no claim is filled from it
      if (source?.kind === 'VolumeSnapshot' && source.apiGroup === snapshotGroup) add(`${ofSnapshot}${metadata?.namespace}/${source.name}`);
      for (const one of snapshots.list(metadata?.namespace))
        if (one.spec.source.persistentVolumeClaimName === metadata?.name) snapshot(one);
    };
    this.#controller.start(
      snapshots.addEventHandler({ onAdd: snapshot, onUpdate: snapshot, onDelete: snapshot }),
      contents.addEventHandler({
        onAdd: (now) => content(now),
        onUpdate: (now, old) => content(now, now === old ? undefined : old),
        onDelete: (now) => content(now),
      }),
      classes.addEventHandler({
        onAdd: () => {
          for (const one of snapshots.list()) if (one.status?.boundVolumeSnapshotContentName === undefined) snapshot(one);
        },
      }),
      claims.addEventHandler({ onAdd: claim, onUpdate: (now, old) => now !== old && claim(now), onDelete: claim }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }
}

/** Returns the fields of a VolumeSnapshotContent. If one of them changes, the controller reconciles the content again. */
const stageOf = ({ metadata }: Pick<VolumeSnapshotContent, 'metadata'>) =>
  `${metadata?.generation} ${metadata?.deletionTimestamp !== undefined} ${metadata?.annotations?.[notes.beingDeleted]}`;
