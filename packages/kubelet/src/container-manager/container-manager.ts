import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { cgroupMount, openDelegatedCgroup } from '@oarlock/primitives/os/delegated-cgroup';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { Resources } from '../pod-util/resources.ts';
import { CgroupfsManager, type CgroupManager } from './cgroupfs-manager.ts';
import { nodeResourceConfig } from './resource-config.ts';
import { PodContainerManager } from './pod-container-manager.ts';
import { SystemdCgroupManager } from './systemd-cgroup-manager.ts';

type Driver = 'cgroupfs' | 'systemd';

/** The properties of a runtime that the container manager reads. */
export interface CgroupRuntime {
  readonly pleg: { readonly simulated: boolean; readonly cgroupDriver: Driver };
}

export interface ContainerManagerOptions {
  readonly config: Pick<KubeletConfig, 'cgroupsPerQos' | 'cgroupRoot' | 'reserved' | 'podPidsLimit'>;
  /** The id of this node, which is unique among the kubelets of the machine. */
  readonly owner: string;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Logger;
  /** The mount point of the cgroup file system. */
  readonly mount?: string;
}

/** Holds one PodContainerManager per cgroup driver (cgroupfs, systemd) that the node's runtimes use. */
export class ContainerManager {
  readonly #options: ContainerManagerOptions;
  readonly #byDriver = new Map<Driver, PodContainerManager | undefined>();

  constructor(options: ContainerManagerOptions) {
    this.#options = options;
  }

  /** Returns the manager of the runtime's pod cgroups; undefined if the kubelet does not manage them. */
  podContainerManager(runtime: CgroupRuntime | undefined): PodContainerManager | undefined {
    return runtime && !runtime.pleg.simulated ? this.#byDriver.get(runtime.pleg.cgroupDriver) : undefined;
  }

  /** Creates the cgroups of the node. Requires connected runtimes. `capacity` is the machine's capacity. */
  async open(runtimes: Iterable<CgroupRuntime>, capacity: Resources): Promise<void> {
    const { config, log } = this.#options;
    const drivers = new Set([...runtimes].filter(({ pleg }) => !pleg.simulated).map(({ pleg }) => pleg.cgroupDriver));
    if (!config.cgroupsPerQos || drivers.size === 0) return;
    const { mount = cgroupMount } = this.#options;
    const tree = await CgroupfsManager.open(mount);
    for (const driver of drivers) {
      try {
        if (!tree) throw new Error('the machine has no cgroup file system');
        // an ordinary user has the cgroup v2 that is delegated; its runtimes are not below systemd
        const delegated =
          driver === 'systemd' || tree.version === 1 || (await isWritable(mount)) ? undefined : openDelegatedCgroup({ mount });
        const cgroups = driver === 'systemd' ? new SystemdCgroupManager(tree) : tree;
        this.#byDriver.set(driver, await this.#opened(cgroups, { capacity, below: join('/', delegated ?? '') }));
      } catch (error) {
        log.warn({ err: error, driver }, 'the kubelet cannot manage pod cgroups: pod-level limits are not enforced');
      }
    }
  }

  /** `below` is the cgroup in which this process may create others. */
  async #opened(
    cgroups: CgroupManager,
    { capacity, below }: { readonly capacity: Resources; readonly below: string },
  ): Promise<PodContainerManager> {
    const { config, owner, clock, log } = this.#options;
    const pods = new PodContainerManager({
      cgroups,
      root: config.cgroupRoot ?? join(below, `oarlock-${owner}`),
      node: nodeResourceConfig(capacity, config.reserved),
      maxPids: config.podPidsLimit > 0 ? config.podPidsLimit : Infinity,
      clock,
      log,
    });
    await pods.open();
    return pods;
  }

  async removeOrphanedPodCgroups(known: (uid: string) => boolean): Promise<void> {
    for (const pods of this.#byDriver.values()) await pods?.removeOrphanedPodCgroups(known);
  }

  async close(): Promise<void> {
    for (const pods of this.#byDriver.values()) await pods?.close();
  }
}

const isWritable = (path: string): Promise<boolean> =>
  access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
