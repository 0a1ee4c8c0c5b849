import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isControlledBy } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import { VolumeError, type VolumeDriver, type VolumeErrorCode } from '@oarlock/spi/volume';
import { errorText } from '@oarlock/primitives/error-text';
import { safePart, type NodePaths } from '../config/node-paths.ts';
import type { ObjectReference } from '../api-objects/object-cache.ts';
import { volumePluginName, type StorageMetrics } from '../metrics/storage-metrics.ts';
import { allContainers, podUid } from '../pod-util/pods.ts';
import { inMemoryVolumeTypes } from './in-tree-drivers.ts';
import { mountsBelow, unmountAll } from './internal/mount-points.ts';
import type { TokenManager } from '../api-objects/token-manager.ts';

export interface MountedVolume {
  readonly name: string;
  readonly driver: VolumeDriver;
  /** The name of the volume plugin in metrics. */
  readonly plugin: string;
  readonly path: string;
  readonly hostPath: string;
  /** True if `hostPath` is a block device. */
  readonly device: boolean;
  readonly readOnly: boolean;
  /** The refresh period that the volume driver requests, in milliseconds; undefined if it requests none. */
  readonly refreshAfterMs: number | undefined;
  readonly claimed: ClaimedVolume;
}

/** The PersistentVolumeClaim and the PersistentVolume of a volume; both undefined if the volume uses no PersistentVolumeClaim. */
interface ClaimedVolume {
  readonly persistentVolume?: PersistentVolume;
  readonly claim?: PersistentVolumeClaim;
}

/** The mounted volumes of one pod, keyed by volume name. The pod record stores them. */
export type PodVolumes = Map<string, MountedVolume>;

/** The error of one volume that could not be mounted. */
export interface VolumeMountError {
  /** The name in the pod. */
  readonly podVolume: string;
  /** The name of the PersistentVolume, or of a volume in the pod that has none. */
  readonly volume: string;
  /** The failed step, which the event names. */
  readonly operation: VolumeError['operation'];
  readonly message: string;
  /** Undefined if the error is not one of the volume driver. */
  readonly code: VolumeErrorCode | undefined;
}
export class VolumeMountErrors extends Error {
  override readonly name = 'VolumeMountErrors';
  readonly failures: readonly VolumeMountError[];
  constructor(failures: readonly VolumeMountError[]) {
    super(failures.map(({ volume, message }) => `${volume}: ${message}`).join('; '));
    this.failures = failures;
  }
}

export interface VolumeManagerOptions {
  /** The volume drivers in order of precedence. The first driver that supports a volume mounts the volume. */
  readonly drivers: ReadonlyMap<string, VolumeDriver>;
  readonly client: Client;
  readonly paths: NodePaths;
  readonly tokens: TokenManager;
  readonly metrics: StorageMetrics;
}

interface Call {
  readonly signal: AbortSignal;
  readonly spanContext: SpanContext | undefined;
}
/** Returns the volumes that at least one container of the pod uses. As upstream, other volumes are not mounted. */
function usedVolumes(pod: Pod): readonly Volume[] {
  const used = new Set<string>();
  for (const { container } of allContainers(pod))
    for (const { name } of [...(container.volumeMounts ?? []), ...(container.volumeDevices ?? [])]) used.add(name);
  return (pod.spec?.volumes ?? []).filter(({ name }) => used.has(name));
}

/** Returns true for volumes whose files the kubelet generates from API objects. As upstream, containers cannot write to such volumes. */
const isMadeByKubelet = ({ configMap, secret, downwardAPI, projected }: Volume) =>
  (configMap ?? secret ?? downwardAPI ?? projected) !== undefined;

/** Checks that the pod uses a Block volume in volumeDevices and a Filesystem volume in volumeMounts. @throws VolumeError if it does not */
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

/** Mounts, refreshes and unmounts volumes through their volume drivers. Its only state is `PodVolumes` and the disk. */
export class VolumeManager {
  readonly #options: VolumeManagerOptions;

  constructor(options: VolumeManagerOptions) {
    this.#options = options;
  }

  /** Returns references to the API objects from which the pod's volumes are generated. */
  objectReferences(pod: Pod): readonly ObjectReference[] {
    return usedVolumes(pod).flatMap((volume) => this.#find(volume, undefined)?.driver.sourceObjects?.({ pod, volume }) ?? []);
  }

  /** Returns the volumes that the pod's containers use and that are not mounted yet. */
  unmountedVolumes(pod: Pod, mounted: PodVolumes): readonly Volume[] {
    return (pod.spec?.volumes ?? []).length === mounted.size ? [] : usedVolumes(pod).filter(({ name }) => !mounted.has(name));
  }

  /** Returns the plugin name of each volume that the pod's containers use. A claim has one once it is mounted. */
  desiredPlugins(pod: Pod, mounted: PodVolumes): readonly string[] {
    return usedVolumes(pod).flatMap((volume) => {
      const name = this.#find(volume, undefined)?.name;
      return mounted.get(volume.name)?.plugin ?? (name === undefined ? [] : volumePluginName(name, volume));
    });
  }

  /** Mounts the volumes that are not mounted yet. @throws VolumeMountErrors with every volume that failed; all other volumes are mounted */
  async mount(pod: Pod, mounted: PodVolumes, call: Call): Promise<void> {
    await this.#forEachVolume(this.unmountedVolumes(pod, mounted), call, async (volume, name) => {
      const claimed = await this.#claimed(pod, volume, call);
      name(claimed.persistentVolume?.metadata?.name);
      mounted.set(volume.name, await this.#mount(pod, { volume, claimed }, call));
    });
  }

  /** Returns the shortest refresh period of the mounted volumes in milliseconds; undefined if no volume has one. */
  refreshAfterMs(mounted: PodVolumes): number | undefined {
    let first: number | undefined;
    for (const { refreshAfterMs } of mounted.values())
      if (refreshAfterMs !== undefined && (first === undefined || refreshAfterMs < first)) first = refreshAfterMs;
    return first;
  }

  /** Updates the content of mounted volumes. @throws VolumeMountErrors with every volume that failed; these volumes keep their content */
  async refresh(pod: Pod, mounted: PodVolumes, call: Call): Promise<void> {
    await this.#forEachVolume(
      usedVolumes(pod).filter(({ name }) => {
        const known = mounted.get(name);
        return known?.driver.requiresRemount === true || known?.refreshAfterMs !== undefined;
      }),
      call,
      async (volume) => {
        await this.#mount(pod, { volume, claimed: mounted.get(volume.name)?.claimed ?? {} }, call);
      },
    );
  }

  /**
   * Unmounts all volumes of a pod that are found on the disk, and removes the pod's directories. Idempotent.
   * @throws VolumeError if a volume cannot be unmounted
   */
  async teardown(uid: string, call: Call): Promise<void> {
    const { paths, drivers, metrics } = this.#options;
    await unmountAll(join(paths.pod(uid), 'volume-subpaths'));
    for (const directory of new Set([paths.volumes(uid, false), paths.volumes(uid, true)])) {
      for (const [driverName, driver] of drivers) {
        const driverDirectory = join(directory, safePart(driverName));
        for (const volumeName of await readdir(driverDirectory).catch(emptyIfMissing))
          await metrics.observe('volume_unmount', volumePluginName(driverName), () =>
            driver.unmount({ podUid: uid, volumeName, path: join(driverDirectory, volumeName) }, call),
          );
      }
    }
    for (const directory of new Set([paths.pod(uid), paths.volatilePod(uid)])) {
      const left = await mountsBelow(directory);
      // a removal through a mount point would delete the volume's data
      if (left.length > 0) throw new VolumeError('Failed', `still mounted: ${left.join(', ')}`);
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Returns the uids of pods with directories on the disk. */
  async orphanedPodUids(): Promise<readonly string[]> {
    const { paths } = this.#options;
    const found = await Promise.all(
      [paths.pods, join(paths.volatile, 'pods')].map((directory) => readdir(directory).catch(emptyIfMissing)),
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

  async #mount(
    pod: Pod,
    { volume, claimed }: { readonly volume: Volume; readonly claimed: ClaimedVolume },
    call: Call,
  ): Promise<MountedVolume> {
    const { persistentVolume } = claimed;
    const found = this.#find(volume, persistentVolume);
    if (!found) throw new VolumeError('InvalidArgument', 'no volume plugin matched');
    const { name, driver } = found;
    const { paths, tokens, metrics } = this.#options;
    const plugin = volumePluginName(name, volume, persistentVolume);
    checkMode(pod, volume.name, persistentVolume?.spec?.volumeMode === 'Block');
    const path = paths.volume(podUid(pod), { driver: name, volume: volume.name, inMemory: inMemoryVolumeTypes.has(name) });
    const fsGroup = pod.spec?.securityContext?.fsGroup;
    const readOnly = volume.persistentVolumeClaim?.readOnly === true || volume.csi?.readOnly === true;
    const request = {
      ...{ pod, volume, path, readOnly },
      ...claimed,
      ...(fsGroup !== undefined && { fsGroup }),
      serviceAccountToken: (options: Parameters<TokenManager['tokenWithExpiry']>[1]) => tokens.tokenWithExpiry(pod, options),
    };
    const mounted = await metrics.observe('volume_mount', plugin, () => driver.mount(request, call));
    const { hostPath, device = false, refreshAfterMs } = mounted;
    const common = { name: volume.name, driver, plugin, path, hostPath, device, refreshAfterMs, claimed };
    return { ...common, readOnly: readOnly || isMadeByKubelet(volume) };
  }

  /**
   * Returns the PersistentVolumeClaim and PersistentVolume of a volume, or of an ephemeral volume; an empty object for other volumes.
   * @throws VolumeError `NotReady` if the PersistentVolumeClaim is not bound or being deleted, `InvalidArgument` if it belongs to another pod
   */
  async #claimed(pod: Pod, volume: Volume, { signal }: Call): Promise<ClaimedVolume> {
    const claimName = volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral ? `${pod.metadata?.name}-${volume.name}` : undefined);
    if (claimName === undefined) return {};
    const { client } = this.#options;
    const namespace = pod.metadata?.namespace ?? '';
    const claim = await client.get(persistentVolumeClaims, { namespace, name: claimName }, { signal });
    if (claim.metadata?.deletionTimestamp !== undefined)
      throw new VolumeError('NotReady', `can't start pod because PVC ${namespace}/${claimName} is being deleted`);
    if (volume.ephemeral && !isControlledBy(claim, pod))
      throw new VolumeError(
        'InvalidArgument',
        `PVC ${namespace}/${claimName} was not created for pod ${pod.metadata?.name} (pod is not owner)`,
      );
    if (claim.status?.phase !== 'Bound' || !claim.spec?.volumeName)
      throw new VolumeError('NotReady', `PVC ${namespace}/${claimName} is not bound`);
    return { claim, persistentVolume: await client.get(persistentVolumes, { name: claim.spec.volumeName }, { signal }) };
  }

  /**
   * Runs `work` for each volume; `work` passes the name that errors have, if that is not the name in the pod. If the signal aborts, the call does not
   * wait for volume drivers that do not answer.
   */
  async #forEachVolume(
    volumes: readonly Volume[],
    { signal }: Call,
    work: (volume: Volume, name: (specName: string | undefined) => void) => Promise<void>,
  ): Promise<void> {
    if (volumes.length === 0) return;
    const names = volumes.map(({ name }) => ({ podVolume: name, volume: name }));
    const started = volumes.map((volume, index) =>
      work(volume, (specName) => (names[index] = { podVolume: volume.name, volume: specName ?? volume.name })),
    );
    const results = await untilAborted(signal, Promise.allSettled(started));
    const failures = results.flatMap((result, index) =>
      result.status === 'rejected' ? [{ ...(names[index] ?? unnamed), ...mountError(result.reason) }] : [],
    );
    if (failures.length > 0) throw new VolumeMountErrors(failures);
  }
}

const unnamed = { podVolume: '', volume: '' };
const mountError = (reason: unknown): Omit<VolumeMountError, keyof typeof unnamed> => ({
  code: reason instanceof VolumeError ? reason.code : undefined,
  operation: reason instanceof VolumeError ? reason.operation : 'SetUp',
  message: errorText(reason),
});

/** Resolves with the result of `work`, or rejects with the signal's reason as soon as the signal aborts. */
function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function emptyIfMissing(error: unknown): readonly string[] {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
  throw error;
}
