import { randomBytes } from 'node:crypto';
import { release } from 'node:os';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Availability, Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { programPath } from '@oarlock/primitives/os/bundled-program';
import { commandsOf } from '@oarlock/oci/control/image-commands';
import { ImageServer } from '@oarlock/oci/control/image-server';
import type { ImageRecord } from '@oarlock/oci/image-store';
import type { OpenImageStore } from '@oarlock/oci/store/open-image-store';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';
import { SupervisedRuntime } from '@oarlock/process-supervisor/client/supervised-runtime';
import type { NetworkDriver } from '@oarlock/spi/network';
import {
  isHostImage,
  RuntimeError,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStats,
  type Image,
  type ImageSupport,
  type Limitation,
  type PodSandboxConfig,
  type RegistryAuth,
  type RuntimeCallOptions,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeFeatures,
} from '@oarlock/spi/runtime';
import { asRuntimeResult } from './images/image-errors.ts';
import { LazyImageStore } from './images/lazy-image-store.ts';
import type { PreparedContainer } from './spec/prepared-container.ts';
import { limitations } from './modes/limitations.ts';
import { kernelFeatures, minOomScoreAdj } from './modes/kernel-features.ts';
import { describeMode, type RuntimeMode } from './modes/runtime-mode.ts';
import type { SupervisorOptions } from './supervisor.ts';

export interface OciRuntimeConfig {
  readonly keepPods: boolean;
  readonly stopGraceSeconds: number;
  readonly idleSeconds: number;
  /** False if the plugin starts also on a machine that cannot run containers. */
  readonly required: boolean;
}
export interface OciRuntimeServices extends Pick<PluginContext, 'clock' | 'log' | 'dataDir'> {
  readonly mode: RuntimeMode;
  /** Checks whether this machine can run containers. */
  probe(): Promise<Availability>;
  /** Returns true if the supervisor may make control groups with limits. */
  hasCgroups(): boolean;
  /** Opens the image store below a directory. */
  openImages(directory: string): Promise<OpenImageStore>;
}

/** A RuntimeDriver that runs images of OCI registries with an OCI runtime, without a daemon. A supervisor process owns the containers. */
export class OciRuntime extends SupervisedRuntime implements RuntimeDriver, Lifecycle {
  readonly traits: RuntimeDriver['traits'];
  readonly #services: OciRuntimeServices;
  readonly #store: LazyImageStore;
  /** Serves the store to `oarlock image`. */
  readonly #imageServer: ImageServer;
  readonly #required: boolean;
  #probed: Promise<Availability> | undefined;
  #cgroups: boolean | undefined;

  constructor(config: OciRuntimeConfig, network: NetworkDriver | undefined, services: OciRuntimeServices) {
    const { clock, log, dataDir, mode, openImages } = services;
    const options: SupervisorOptions = { dataDir, mode, idleMs: config.idleSeconds * 1000 };
    const program = { entry: programPath('@oarlock/runtime-oci/supervisor', import.meta.url), options };
    const { keepPods, stopGraceSeconds } = config;
    super({ name: 'oci', program, network, namespaces: true, ipcSysctls: mode.user === 'root', keepPods, stopGraceSeconds, clock, log });
    this.#services = services;
    this.#required = config.required;
    this.#store = new LazyImageStore(join(dataDir, 'images'), { open: openImages, opened: (store) => this.#removeOrphans(store) });
    this.#imageServer = new ImageServer(async () => commandsOf((await this.#store.open()).images));
    this.traits = { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: this.networkNamespaces };
  }

  async start(): Promise<void> {
    void this.#availability();
    await this.connect();
    if (this.#required) await this.#store.openIfAny();
    await mkdir(this.#services.dataDir, { recursive: true, mode: 0o700 });
    await this.#imageServer.listen(this.#services.dataDir);
  }

  override async stop(): Promise<void> {
    try {
      await this.#imageServer.close();
      await super.stop();
    } finally {
      await this.#probed; // its process may have files of the data directory open
      await this.#store.close();
    }
  }

  override async status(call: RuntimeCallOptions = {}): Promise<readonly RuntimeCondition[]> {
    const conditions = await super.status(call);
    const { snapshotterNotes = [] } = (await this.#store.opened()) ?? {};
    const notes = (message: string) => [message, ...snapshotterNotes].filter((note) => note !== '').join('; ');
    return conditions.map((condition) =>
      condition.type === 'RuntimeReady' ? { ...condition, message: notes(condition.message) } : condition,
    );
  }

  async features({ signal }: RuntimeCallOptions = {}): Promise<RuntimeFeatures> {
    signal?.throwIfAborted();
    const handler = { name: '', recursiveReadOnlyMounts: isKernel(5, 12), userNamespaces: false };
    return { handlers: [handler], supplementalGroupsPolicy: true };
  }

  async imageSupport(): Promise<ImageSupport> {
    const availability = await this.#availability();
    return availability.available
      ? { available: true, detail: describeMode(this.#services.mode) }
      : { available: false, detail: availability.reason };
  }

  async limitations(): Promise<readonly Limitation[]> {
    if (!(await this.#availability()).available) return [];
    const { mode } = this.#services;
    this.#cgroups ??= this.#services.hasCgroups();
    return limitations(mode, {
      cgroups: this.#cgroups,
      networks: this.networkNamespaces,
      oomScores: minOomScoreAdj() < 0,
      kernel: kernelFeatures(),
    });
  }

  override async runPodSandbox(config: PodSandboxConfig, handler: string, call: RuntimeCallOptions = {}): Promise<string> {
    const availability = await this.#availability();
    if (!availability.available) throw new RuntimeError('Unsupported', `containers cannot run on this machine: ${availability.reason}`);
    return super.runPodSandbox(config, handler, call);
  }

  override async removePodSandbox(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    const containers = await this.listContainers({ sandboxId: id }, call);
    await super.removePodSandbox(id, call);
    for (const container of containers) await this.#removeSnapshots(container.id);
  }

  async createContainer(
    sandboxId: string,
    config: ContainerConfig,
    _sandbox: PodSandboxConfig,
    { signal }: RuntimeCallOptions = {},
  ): Promise<string> {
    await this.sandbox(sandboxId, signal);
    const image = await this.#image(config.image.image);
    const id = randomBytes(32).toString('hex');
    try {
      const prepared = await this.#prepare(id, { image, mounts: config.mounts }, signal);
      const imageRef = image.repoDigests[0] ?? image.id;
      const stopSignal = config.stopSignal ?? (image.config.stopSignal || undefined);
      const full = { ...config, ...(stopSignal !== undefined && { stopSignal }) };
      return await this.supervisor.call('container.create', { sandboxId, config: full, id, imageRef, prepared }, signal);
    } catch (error) {
      await this.#removeSnapshots(id).catch((failure: unknown) =>
        this.#services.log.warn({ container: id, error: String(failure) }, 'cannot remove the files of a container that was not created'),
      );
      throw error;
    }
  }

  override async removeContainer(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    await super.removeContainer(id, call);
    await this.#removeSnapshots(id);
  }

  override async containerStats(id: string, call: RuntimeCallOptions = {}): Promise<ContainerStats> {
    return this.#withLayer(await super.containerStats(id, call));
  }
  override async listContainerStats(filter: ContainerFilter = {}, call: RuntimeCallOptions = {}): Promise<readonly ContainerStats[]> {
    return Promise.all((await super.listContainerStats(filter, call)).map((stats) => this.#withLayer(stats)));
  }

  async listImages({ signal }: RuntimeCallOptions = {}): Promise<readonly Image[]> {
    signal?.throwIfAborted();
    return ((await this.#openIfAny())?.images.list() ?? []).map(describeImage);
  }
  async imageStatus(image: string, { signal }: RuntimeCallOptions = {}): Promise<Image | undefined> {
    signal?.throwIfAborted();
    const record = (await this.#openIfAny())?.images.status(image);
    return record && describeImage(record);
  }
  async pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    _sandbox: PodSandboxConfig | undefined,
    { signal }: RuntimeCallOptions = {},
  ): Promise<string> {
    if (isHostImage(image))
      throw new RuntimeError(
        'Unsupported',
        'image "host" runs programs of the node with runtime-process, and a pod runs with one runtime: either all containers name it or none',
      );
    const { images } = await this.#opened();
    return (await asRuntimeResult(images.pull({ reference: image, credentials: auth, signal }))).id;
  }
  async removeImage(image: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    const store = await this.#openIfAny();
    if (store) await asRuntimeResult(store.images.remove(image));
  }
  async imageFsInfo({
    signal,
  }: RuntimeCallOptions = {}): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    signal?.throwIfAborted();
    const store = await this.#openIfAny();
    if (store) return asRuntimeResult(store.images.fsInfo());
    await mkdir(this.#services.dataDir, { recursive: true, mode: 0o700 });
    return { mountpoint: this.#services.dataDir, usedBytes: 0, inodesUsed: 0 };
  }

  /** Makes the root directory of a container and the directories of its image volumes. */
  async #prepare(
    id: string,
    { image, mounts }: { readonly image: ImageRecord; readonly mounts: ContainerConfig['mounts'] },
    signal: AbortSignal | undefined,
  ): Promise<PreparedContainer> {
    const { snapshots } = await this.#opened();
    const root = await asRuntimeResult(snapshots.prepare({ key: id, image: image.id }, signal));
    const volumes: Record<string, RootFilesystem> = {};
    for (const [index, mount] of mounts.entries()) {
      if (mount.image === undefined) continue;
      const request = { key: `${id}${volumeSeparator}${index}`, image: (await this.#image(mount.image)).id };
      volumes[index] = await asRuntimeResult(snapshots.view(request, signal));
    }
    const { entrypoint, cmd, env, user, workingDir } = image.config;
    return { root, image: { entrypoint, cmd, env, user, workingDir }, volumes };
  }

  async #removeSnapshots(containerId: string): Promise<void> {
    const store = await this.#openIfAny();
    if (!store) return;
    const { snapshots } = store;
    for (const { key } of snapshots.list()) if (key.split(volumeSeparator)[0] === containerId) await asRuntimeResult(snapshots.remove(key));
  }

  /** Removes the files of containers that a crash left without a record. */
  async #removeOrphans({ snapshots }: OpenImageStore): Promise<void> {
    const ids = new Set((await this.listContainers()).map(({ id }) => id));
    for (const { key } of snapshots.list()) if (!ids.has(key.split(volumeSeparator)[0] ?? '')) await asRuntimeResult(snapshots.remove(key));
  }

  async #withLayer(stats: ContainerStats): Promise<ContainerStats> {
    const { usedBytes, inodesUsed } = await asRuntimeResult((await this.#opened()).snapshots.usage(stats.id));
    return { ...stats, writableLayerBytes: usedBytes, writableLayerInodes: inodesUsed };
  }

  async #image(reference: string): Promise<ImageRecord> {
    const image = (await this.#opened()).images.status(reference);
    if (!image) throw new RuntimeError('NotFound', `image ${JSON.stringify(reference)} is not present`);
    return image;
  }
  #opened(): Promise<OpenImageStore> {
    return asRuntimeResult(this.#store.open());
  }
  #openIfAny(): Promise<OpenImageStore | undefined> {
    return asRuntimeResult(this.#store.openIfAny());
  }
  #availability(): Promise<Availability> {
    this.#probed ??= this.#services.probe();
    return this.#probed;
  }
}

/** Between the id of a container and the index of an image volume in the names of snapshots. */
const volumeSeparator = '.v';

function describeImage({ id, repoTags, repoDigests, sizeBytes, uid, username, pinned }: ImageRecord): Image {
  return {
    id,
    repoTags,
    repoDigests,
    sizeBytes,
    ...(uid !== undefined && { uid }),
    ...(username !== undefined && { username }),
    ...(pinned !== undefined && { pinned }),
  };
}

/** Returns true if the kernel is this version or newer. */
function isKernel(major: number, minor: number): boolean {
  const [own = 0, ownMinor = 0] = release().split('.').map(Number);
  return own > major || (own === major && ownMinor >= minor);
}
