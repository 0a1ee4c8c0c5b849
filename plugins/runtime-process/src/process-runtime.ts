import { mkdir, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { programPath } from '@oarlock/primitives/os/bundled-program';
import { SupervisedRuntime } from '@oarlock/process-supervisor/client/supervised-runtime';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import type { SupervisorProgram } from '@oarlock/process-supervisor/client/supervisor-launch';
import type { NetworkDriver } from '@oarlock/spi/network';
import {
  hostImage,
  isHostImage,
  RuntimeError,
  type ContainerConfig,
  type Image,
  type Limitation,
  type PodIsolation,
  type PodSandboxConfig,
  type RuntimeCallOptions,
  type RuntimeDriver,
} from '@oarlock/spi/runtime';
import { describeHostImage, unsupportedImage } from './host-image.ts';
import { IsolationStatus } from './isolation-status.ts';
import type { SupervisorOptions } from './supervisor.ts';

export interface ProcessRuntimeConfig {
  readonly keepPods: boolean;
  readonly stopGraceSeconds: number;
  readonly path?: string | undefined;
  readonly nice: number;
  readonly cgroups: boolean;
  readonly namespaces: boolean;
  readonly isolation: 'auto' | 'required' | 'none';
  readonly hiddenPaths: readonly string[];
  readonly idleSeconds: number;
}
type Context = Pick<PluginContext, 'clock' | 'log' | 'dataDir'> & {
  /** The data directory of the process, with its keys; absent if the plugin's own is all there is. */
  readonly processDataDir?: string | undefined;
};

const withoutLimits: Limitation = {
  feature: 'resources',
  message: 'limits of memory and CPU are not enforced: no control group with both belongs to the user of Oarlock, or `cgroups` is false',
};
const profiles: readonly Limitation[] = [
  { feature: 'seccomp', message: 'seccomp profiles are not applied', onRequest: true },
  { feature: 'apparmor', message: 'AppArmor profiles are not applied', onRequest: true },
  { feature: 'selinux', message: 'SELinux options are not applied', onRequest: true },
];

/** Returns the program of the supervisor with its options. */
export function supervisorProgram(options: SupervisorOptions): SupervisorProgram {
  return { entry: programPath('@oarlock/runtime-process/supervisor', import.meta.url), options };
}

/** A RuntimeDriver that runs pods as process groups of this host, owned by a supervisor process that outlives this one. */
export class ProcessRuntime extends SupervisedRuntime implements RuntimeDriver, Lifecycle {
  readonly traits: RuntimeDriver['traits'];
  readonly #context: Context;
  readonly #isolation: IsolationStatus;
  readonly #usesCgroups: boolean;
  /** True if pods have control groups with limits. */
  #limits: boolean | undefined;

  constructor(config: ProcessRuntimeConfig, network: NetworkDriver | undefined, context: Context) {
    const options: SupervisorOptions = {
      dataDir: context.dataDir,
      path: config.path ?? dirname(process.execPath),
      nice: config.nice,
      cgroups: config.cgroups,
      namespaces: config.namespaces,
      isolation: config.isolation,
      hiddenPaths: [...(context.processDataDir === undefined ? [] : [context.processDataDir]), ...config.hiddenPaths],
      idleMs: config.idleSeconds * 1000,
    };
    const { clock, log } = context;
    const { namespaces, keepPods, stopGraceSeconds } = config;
    super({ name: 'process', program: supervisorProgram(options), network, namespaces, keepPods, stopGraceSeconds, clock, log });
    this.#context = context;
    this.#usesCgroups = config.cgroups;
    this.traits = { invokesCni: false, images: false, survivesRestart: true, networkNamespaces: this.networkNamespaces };
    this.#isolation = new IsolationStatus(options, this.supervisor);
  }

  /** @throws RuntimeError `FailedPrecondition` if the config requires isolation and pods cannot be isolated */
  async start(): Promise<void> {
    await mkdir(this.#context.dataDir, { recursive: true, mode: 0o700 });
    this.#isolation.startProbe();
    await this.connect();
    await this.#isolation.verify();
  }

  override async stop(): Promise<void> {
    try {
      await super.stop();
    } finally {
      await this.#isolation.probed; // the probe has files in the data directory
    }
  }

  async isolation(): Promise<PodIsolation> {
    return this.#isolation.status();
  }

  /** What follows from a missing isolation is in the condition `PodIsolation`. */
  async limitations({ signal }: RuntimeCallOptions = {}): Promise<readonly Limitation[]> {
    signal?.throwIfAborted();
    this.#limits ??= this.#usesCgroups && CgroupManager.open(this.#context.clock) !== undefined;
    return this.#limits ? profiles : [withoutLimits, ...profiles];
  }

  async createContainer(
    sandboxId: string,
    config: ContainerConfig,
    _sandbox: PodSandboxConfig,
    { signal }: RuntimeCallOptions = {},
  ): Promise<string> {
    if (!isHostImage(config.image.image)) throw unsupportedImage(config.image.image);
    const [device] = config.devices ?? [];
    if (device) throw new RuntimeError('Unsupported', `process containers do not support devices: ${device.containerPath}`);
    await this.sandbox(sandboxId, signal);
    return this.supervisor.call(
      'container.create',
      { sandboxId, config: { ...config, image: { ...config.image, image: hostImage } } },
      signal,
    );
  }

  async listImages({ signal }: RuntimeCallOptions = {}): Promise<readonly Image[]> {
    signal?.throwIfAborted();
    return [describeHostImage()];
  }
  async imageStatus(image: string, { signal }: RuntimeCallOptions = {}): Promise<Image | undefined> {
    signal?.throwIfAborted();
    return isHostImage(image) ? describeHostImage() : undefined;
  }
  async pullImage(image: string): Promise<string> {
    if (!isHostImage(image)) throw unsupportedImage(image);
    return hostImage;
  }
  /** Does nothing: the host image cannot be removed. */
  async removeImage(): Promise<void> {}
  async imageFsInfo({
    signal,
  }: RuntimeCallOptions = {}): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    signal?.throwIfAborted();
    await mkdir(this.#context.dataDir, { recursive: true, mode: 0o700 });
    const { blocks, bfree, bsize, files, ffree } = await statfs(this.#context.dataDir);
    return { mountpoint: this.#context.dataDir, usedBytes: (blocks - bfree) * bsize, inodesUsed: files - ffree };
  }
}
