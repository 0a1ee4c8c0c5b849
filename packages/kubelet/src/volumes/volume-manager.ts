import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import { VolumeError, type VolumeDriver } from '@oarlock/spi/volume';
import { safePart, type NodePaths } from '../node-paths.ts';
import type { ObjectReference } from '../object-cache.ts';
import { allContainers, podUid } from '../pods.ts';
import { inMemory } from './builtin-drivers.ts';
import { mountsBelow, unmountAll } from './mount-points.ts';
import type { ServiceAccountTokens } from './service-account-tokens.ts';

export interface MountedVolume {
  readonly name: string;
  readonly driver: VolumeDriver;
  readonly path: string;
  readonly hostPath: string;
  /** `hostPath` is a block device. */
  readonly device: boolean;
  readonly readOnly: boolean;
  /** The driver wants to be called again so often. Milliseconds. */
  readonly refreshAfterMs: number | undefined;
  readonly claimed: Claimed;
}

/** What is behind a claim; empty for volumes that are none. */
interface Claimed {
  readonly persistentVolume?: PersistentVolume;
  readonly claim?: PersistentVolumeClaim;
}

/** What is mounted for one pod. Whoever looks after the pod keeps it. */
export type PodVolumes = Map<string, MountedVolume>;

/** One volume that could not be made ready. */
export interface VolumeFailure {
  readonly volume: string;
  readonly message: string;
}
export class VolumeFailures extends Error {
  override readonly name = 'VolumeFailures';
  readonly failures: readonly VolumeFailure[];
  constructor(failures: readonly VolumeFailure[]) {
    super(failures.map(({ volume, message }) => `${volume}: ${message}`).join('; '));
    this.failures = failures;
  }
}

export interface VolumeManagerOptions {
  /** In the order in which they are asked; the first that says yes has the volume. */
  readonly drivers: ReadonlyMap<string, VolumeDriver>;
  readonly client: Client;
  readonly paths: NodePaths;
  readonly tokens: ServiceAccountTokens;
}

interface Call {
  readonly signal: AbortSignal;
  readonly cause: Cause | undefined;
}
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Volumes that some container of the pod uses; the others are left alone, as upstream does. */
function usedVolumes(pod: Pod): readonly Volume[] {
  const used = new Set<string>();
  for (const { container } of allContainers(pod))
    for (const { name } of [...(container.volumeMounts ?? []), ...(container.volumeDevices ?? [])]) used.add(name);
  return (pod.spec?.volumes ?? []).filter(({ name }) => used.has(name));
}

/** A block device is used as a device, and a file system is mounted. @throws VolumeError */
function checkMode(pod: Pod, volume: string, block: boolean): void {
  for (const { container } of allContainers(pod)) {
    const wrong = block ? container.volumeMounts : container.volumeDevices;
    if (wrong?.some(({ name }) => name === volume) === true)
      throw new VolumeError(
        'InvalidArgument',
        `volume ${volume} has volumeMode ${block ? 'Block' : 'Filesystem'}, but is specified in ${block ? 'volumeMounts' : 'volumeDevices'}`,
      );
  }
}

/** Finds the driver of each volume and has it mounted, refreshed and unmounted. State is in `PodVolumes` and on the disk alone. */
export class VolumeManager {
  readonly #options: VolumeManagerOptions;

  constructor(options: VolumeManagerOptions) {
    this.#options = options;
  }

  /** Objects that the pod's volumes are made from. */
  references(pod: Pod): readonly ObjectReference[] {
    return usedVolumes(pod).flatMap((volume) => this.#find(volume, undefined)?.driver.sources?.({ pod, volume }) ?? []);
  }

  /** Volumes that the pod's containers use and that are not mounted yet. */
  pending(pod: Pod, mounted: PodVolumes): readonly Volume[] {
    return (pod.spec?.volumes ?? []).length === mounted.size ? [] : usedVolumes(pod).filter(({ name }) => !mounted.has(name));
  }

  /** Mounts what is not mounted yet. @throws VolumeFailures with every volume that failed; the others are mounted */
  async mount(pod: Pod, mounted: PodVolumes, call: Call): Promise<void> {
    await this.#each(this.pending(pod, mounted), call, async (volume) => {
      mounted.set(volume.name, await this.#mount(pod, volume, await this.#claimed(pod, volume, call), call));
    });
  }

  /** When a driver wants to be called again for what is mounted, in milliseconds from now; undefined: none does. */
  refreshAfterMs(mounted: PodVolumes): number | undefined {
    let first: number | undefined;
    for (const { refreshAfterMs } of mounted.values())
      if (refreshAfterMs !== undefined && (first === undefined || refreshAfterMs < first)) first = refreshAfterMs;
    return first;
  }

  /** Brings the content of mounted volumes up to date. @throws VolumeFailures; what is mounted stays as it was */
  async refresh(pod: Pod, mounted: PodVolumes, call: Call): Promise<void> {
    await this.#each(
      usedVolumes(pod).filter(({ name }) => {
        const known = mounted.get(name);
        return known?.driver.refreshes === true || known?.refreshAfterMs !== undefined;
      }),
      call,
      async (volume) => {
        await this.#mount(pod, volume, mounted.get(volume.name)?.claimed ?? {}, call);
      },
    );
  }

  /** Unmounts everything of a pod, found on the disk, and removes its directories. Idempotent. */
  async teardown(uid: string, call: Call): Promise<void> {
    const { paths, drivers } = this.#options;
    await unmountAll(join(paths.pod(uid), 'volume-subpaths'));
    for (const place of new Set([paths.volumes(uid, false), paths.volumes(uid, true)])) {
      for (const [driverName, driver] of drivers) {
        const directory = join(place, safePart(driverName));
        for (const volumeName of await readdir(directory).catch(noneWhenMissing))
          await driver.unmount({ podUid: uid, volumeName, path: join(directory, volumeName) }, call);
      }
    }
    for (const place of new Set([paths.pod(uid), paths.volatilePod(uid)])) {
      const left = await mountsBelow(place);
      // removing through a mount would remove what is mounted
      if (left.length > 0) throw new VolumeError('Failed', `still mounted: ${left.join(', ')}`);
      await rm(place, { recursive: true, force: true });
    }
  }

  /** Pods that have left something on the disk. */
  async leftovers(): Promise<readonly string[]> {
    const { paths } = this.#options;
    const found = await Promise.all(
      [paths.pods, join(paths.volatile, 'pods')].map((directory) => readdir(directory).catch(noneWhenMissing)),
    );
    return [...new Set(found.flat())];
  }

  #find(
    volume: Volume,
    persistentVolume: PersistentVolume | undefined,
  ): { readonly name: string; readonly driver: VolumeDriver } | undefined {
    for (const [name, driver] of this.#options.drivers) if (driver.supports(volume, persistentVolume)) return { name, driver };
    return undefined;
  }

  async #mount(pod: Pod, volume: Volume, claimed: Claimed, call: Call): Promise<MountedVolume> {
    const { persistentVolume } = claimed;
    const found = this.#find(volume, persistentVolume);
    if (!found) throw new VolumeError('InvalidArgument', 'no volume plugin matched');
    const { name, driver } = found;
    const { paths, tokens } = this.#options;
    checkMode(pod, volume.name, persistentVolume?.spec?.volumeMode === 'Block');
    const path = paths.volume(podUid(pod), name, volume.name, inMemory.has(name));
    const fsGroup = pod.spec?.securityContext?.fsGroup;
    const readOnly = volume.persistentVolumeClaim?.readOnly === true || volume.csi?.readOnly === true;
    const mounted = await driver.mount(
      {
        pod,
        volume,
        path,
        readOnly,
        ...claimed,
        ...(fsGroup !== undefined && { fsGroup }),
        serviceAccountToken: (request) => tokens.full(pod, request),
      },
      call,
    );
    const { hostPath, device = false, refreshAfterMs } = mounted;
    return { name: volume.name, driver, path, hostPath, device, readOnly, refreshAfterMs, claimed };
  }

  /** The volume behind a claim, of the pod or made for it. @throws VolumeError `NotReady` until it is bound */
  async #claimed(pod: Pod, volume: Volume, { signal }: Call): Promise<Claimed> {
    const claimName = volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral ? `${pod.metadata?.name}-${volume.name}` : undefined);
    if (claimName === undefined) return {};
    const { client } = this.#options;
    const namespace = pod.metadata?.namespace ?? '';
    const claim = await client.get(persistentVolumeClaims, { namespace, name: claimName }, { signal });
    if (claim.metadata?.deletionTimestamp !== undefined)
      throw new VolumeError('NotReady', `can't start pod because PVC ${namespace}/${claimName} is being deleted`);
    const owned = claim.metadata?.ownerReferences?.some(({ uid }) => uid === podUid(pod)) === true;
    if (volume.ephemeral && !owned)
      throw new VolumeError(
        'InvalidArgument',
        `PVC ${namespace}/${claimName} was not created for pod ${pod.metadata?.name} (pod is not owner)`,
      );
    if (claim.status?.phase !== 'Bound' || !claim.spec?.volumeName)
      throw new VolumeError('NotReady', `PVC ${namespace}/${claimName} is not bound`);
    return { claim, persistentVolume: await client.get(persistentVolumes, { name: claim.spec.volumeName }, { signal }) };
  }

  /** A driver that does not answer is left behind when nobody wants the volume any more. */
  async #each(volumes: readonly Volume[], { signal }: Call, work: (volume: Volume) => Promise<void>): Promise<void> {
    if (volumes.length === 0) return;
    const results = await untilAborted(signal, Promise.allSettled(volumes.map(work)));
    const failures = results.flatMap((result, index) =>
      result.status === 'rejected' ? [{ volume: volumes[index]?.name ?? '', message: messageOf(result.reason) }] : [],
    );
    if (failures.length > 0) throw new VolumeFailures(failures);
  }
}

/** The outcome, or a rejection with the signal's reason as soon as that aborts. */
function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function noneWhenMissing(error: unknown): readonly string[] {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
  throw error;
}
