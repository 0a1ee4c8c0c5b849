import { randomBytes } from 'node:crypto';
import { release } from 'node:os';
import { join } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { programPath } from '@oarlock/primitives/os/bundled-program';
import type { ImageRecord } from '@oarlock/oci/image-store';
import type { OpenImageStore } from '@oarlock/oci/store/open-image-store';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';
import { SupervisedRuntime } from '@oarlock/process-supervisor/client/supervised-runtime';
import type { NetworkDriver } from '@oarlock/spi/network';
import {
  RuntimeError,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStats,
  type Image,
  type PodSandboxConfig,
  type RegistryAuth,
  type RuntimeCallOptions,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeFeatures,
} from '@oarlock/spi/runtime';
import { asRuntimeResult } from './images/image-errors.ts';
import type { PreparedContainer } from './spec/prepared-container.ts';
import type { RuntimeMode } from './runtime-mode.ts';
import type { SupervisorOptions } from './supervisor.ts';

export interface OciRuntimeConfig {
  readonly keepPods: boolean;
  readonly stopGraceSeconds: number;
  readonly idleSeconds: number;
}
export interface OciRuntimeServices extends Pick<PluginContext, 'clock' | 'log' | 'dataDir'> {
  readonly mode: RuntimeMode;
  /** Opens the image store below a directory. */
  openImages(directory: string): Promise<OpenImageStore>;
}

/** A RuntimeDriver that runs images of OCI registries with an OCI runtime, without a daemon. A supervisor process owns the containers. */
export class OciRuntime extends SupervisedRuntime implements RuntimeDriver, Lifecycle {
  readonly traits: RuntimeDriver['traits'];
  readonly #services: OciRuntimeServices;
  #store: OpenImageStore | undefined;

  constructor(config: OciRuntimeConfig, network: NetworkDriver | undefined, services: OciRuntimeServices) {
    const { clock, log, dataDir, mode } = services;
    const options: SupervisorOptions = { dataDir, mode, idleMs: config.idleSeconds * 1000 };
    const program = { entry: programPath('@oarlock/runtime-oci/supervisor', import.meta.url), options };
    const { keepPods, stopGraceSeconds } = config;
    super({ name: 'oci', program, network, namespaces: true, ipcSysctls: true, keepPods, stopGraceSeconds, clock, log });
    this.#services = services;
    this.traits = { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: this.networkNamespaces };
  }

  async start(): Promise<void> {
    this.#store = await this.#services.openImages(join(this.#services.dataDir, 'images'));
    await this.connect();
    await this.#removeOrphans();
  }

  override async stop(): Promise<void> {
    try {
      await super.stop();
    } finally {
      await this.#store?.images.close();
    }
  }

  override async status(call: RuntimeCallOptions = {}): Promise<readonly RuntimeCondition[]> {
    const conditions = await super.status(call);
    const { snapshotterNotes } = this.#opened();
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
    const image = this.#image(config.image.image);
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
    return this.#opened().images.list().map(describeImage);
  }
  async imageStatus(image: string, { signal }: RuntimeCallOptions = {}): Promise<Image | undefined> {
    signal?.throwIfAborted();
    const record = this.#opened().images.status(image);
    return record && describeImage(record);
  }
  async pullImage(
    image: string,
    auth: RegistryAuth | undefined,
    _sandbox: PodSandboxConfig | undefined,
    { signal }: RuntimeCallOptions = {},
  ): Promise<string> {
    const { images } = this.#opened();
    return (await asRuntimeResult(images.pull({ reference: image, credentials: auth, signal }))).id;
  }
  async removeImage(image: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    await asRuntimeResult(this.#opened().images.remove(image));
  }
  async imageFsInfo({
    signal,
  }: RuntimeCallOptions = {}): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    signal?.throwIfAborted();
    return asRuntimeResult(this.#opened().images.fsInfo());
  }

  /** Makes the root directory of a container and the directories of its image volumes. */
  async #prepare(
    id: string,
    { image, mounts }: { readonly image: ImageRecord; readonly mounts: ContainerConfig['mounts'] },
    signal: AbortSignal | undefined,
  ): Promise<PreparedContainer> {
    const { snapshots } = this.#opened();
    const root = await asRuntimeResult(snapshots.prepare({ key: id, image: image.id }, signal));
    const volumes: Record<string, RootFilesystem> = {};
    for (const [index, mount] of mounts.entries()) {
      if (mount.image === undefined) continue;
      const request = { key: `${id}${volumeSeparator}${index}`, image: this.#image(mount.image).id };
      volumes[index] = await asRuntimeResult(snapshots.view(request, signal));
    }
    const { entrypoint, cmd, env, user, workingDir } = image.config;
    return { root, image: { entrypoint, cmd, env, user, workingDir }, volumes };
  }

  async #removeSnapshots(containerId: string): Promise<void> {
    const { snapshots } = this.#opened();
    for (const { key } of snapshots.list()) if (key.split(volumeSeparator)[0] === containerId) await asRuntimeResult(snapshots.remove(key));
  }

  /** Removes the files of containers that a crash left without a record. */
  async #removeOrphans(): Promise<void> {
    const { snapshots } = this.#opened();
    const ids = new Set((await this.listContainers()).map(({ id }) => id));
    for (const { key } of snapshots.list()) if (!ids.has(key.split(volumeSeparator)[0] ?? '')) await asRuntimeResult(snapshots.remove(key));
  }

  async #withLayer(stats: ContainerStats): Promise<ContainerStats> {
    const { usedBytes, inodesUsed } = await asRuntimeResult(this.#opened().snapshots.usage(stats.id));
    return { ...stats, writableLayerBytes: usedBytes, writableLayerInodes: inodesUsed };
  }

  #image(reference: string): ImageRecord {
    const image = this.#opened().images.status(reference);
    if (!image) throw new RuntimeError('NotFound', `image ${JSON.stringify(reference)} is not present`);
    return image;
  }
  #opened(): OpenImageStore {
    if (!this.#store) throw new RuntimeError('Unavailable', 'the runtime has not been started');
    return this.#store;
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
