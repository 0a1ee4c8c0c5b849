import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';
import { ContentSync } from './snapshot-contents.ts';
import {
  snapshotClasses,
  snapshotContents,
  snapshotGroup,
  volumeSnapshots,
  type VolumeSnapshot,
  type VolumeSnapshotContent,
} from './snapshot-kinds.ts';
import { notes } from './snapshot-names.ts';
import { SnapshotSync } from './snapshot-objects.ts';
import { WorkLoop } from './work-loop.ts';

const ofSnapshot = 'snapshot ';
const ofContent = 'content ';

/**
 * Does for a driver what the snapshot controller of Kubernetes would, which binds snapshots to contents, or what an external snapshotter would,
 * which has the driver take and delete them. Begins when the kinds are served.
 */
export class Snapshotter implements Sidecar {
  readonly #loop: WorkLoop;
  readonly #caches: SnapshotCaches;
  readonly #part: 'snapshots' | 'contents';

  constructor(options: SidecarOptions, part: 'snapshots' | 'contents') {
    const { informers, clock, log, driver } = options;
    this.#part = part;
    this.#caches = {
      snapshots: informers.of(volumeSnapshots),
      contents: informers.of(snapshotContents),
      classes: informers.of(snapshotClasses),
      claims: informers.of(persistentVolumeClaims),
      volumes: informers.of(persistentVolumes),
    };
    const snapshots = new SnapshotSync(options, this.#caches);
    const contents = new ContentSync(options, this.#caches, (name, ms) => this.#loop.addAfter(`${ofContent}${name}`, ms));
    this.#loop = new WorkLoop({
      name: `${part}-${driver.name}`,
      clock,
      log,
      caches: Object.values(this.#caches) as readonly Informer[],
      work: (key) =>
        key.startsWith(ofSnapshot) ? snapshots.look(key.slice(ofSnapshot.length)) : contents.look(key.slice(ofContent.length)),
    });
  }

  start(): void {
    const { snapshots, contents, classes, claims } = this.#caches;
    const add = (key: string) => {
      if (key.startsWith(ofSnapshot) === (this.#part === 'snapshots')) this.#loop.add(key);
    };
    const snapshot = (object: VolumeSnapshot) => add(`${ofSnapshot}${objectKey(object)}`);
    const content = ({ metadata, spec: { volumeSnapshotRef: ref } }: VolumeSnapshotContent, old?: VolumeSnapshotContent) => {
      // what is said here of how it goes is no reason to try again
      if (old === undefined || stageOf({ ...(metadata && { metadata }) }) !== stageOf(old)) add(`${ofContent}${metadata?.name}`);
      if (ref.name !== undefined) add(`${ofSnapshot}${ref.namespace}/${ref.name}`);
    };
    const claim = ({ metadata, spec }: PersistentVolumeClaim) => {
      const source = spec?.dataSource ?? spec?.dataSourceRef;
      // a snapshot that is on its way out waits until nobody is filled from it any more
      if (source?.kind === 'VolumeSnapshot' && source.apiGroup === snapshotGroup) add(`${ofSnapshot}${metadata?.namespace}/${source.name}`);
      for (const one of snapshots.list(metadata?.namespace))
        if (one.spec.source.persistentVolumeClaimName === metadata?.name) snapshot(one);
    };
    this.#loop.start(
      snapshots.on({ added: snapshot, updated: snapshot, deleted: snapshot }),
      contents.on({
        added: (now) => content(now),
        updated: (now, old) => content(now, now === old ? undefined : old),
        deleted: (now) => content(now),
      }),
      classes.on({
        added: () => {
          for (const one of snapshots.list()) if (one.status?.boundVolumeSnapshotContentName === undefined) snapshot(one);
        },
      }),
      claims.on({ added: claim, updated: (now, old) => now !== old && claim(now), deleted: claim }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }
}

/** What makes a content worth another look. */
const stageOf = ({ metadata }: Pick<VolumeSnapshotContent, 'metadata'>) =>
  `${metadata?.generation} ${metadata?.deletionTimestamp !== undefined} ${metadata?.annotations?.[notes.beingDeleted]}`;
