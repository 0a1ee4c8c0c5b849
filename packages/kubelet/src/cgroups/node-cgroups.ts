import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { PodRuntime } from '../node-context.ts';
import type { Amounts } from '../resources.ts';
import { CgroupTree, type Cgroups } from './cgroup-tree.ts';
import { nodeBounds } from './pod-bounds.ts';
import { PodCgroups } from './pod-cgroups.ts';
import { SystemdSlices } from './systemd-slices.ts';

type Driver = 'cgroupfs' | 'systemd';

export interface NodeCgroupsOptions {
  readonly config: Pick<KubeletConfig, 'cgroupsPerQos' | 'cgroupRoot' | 'reserved' | 'podPidsLimit'>;
  /** A name of this node that no other kubelet of the machine has. */
  readonly owner: string;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Logger;
  /** Where cgroups are mounted. */
  readonly mount?: string;
}

/** The cgroups of pods by the runtime that runs them: each has them made by the kernel, or by systemd. */
export class NodeCgroups {
  readonly #options: NodeCgroupsOptions;
  readonly #byDriver = new Map<Driver, PodCgroups | undefined>();

  constructor(options: NodeCgroupsOptions) {
    this.#options = options;
  }

  /** Undefined: the runtime places its containers itself. */
  of(runtime: PodRuntime | undefined): PodCgroups | undefined {
    return runtime && !runtime.hub.simulated ? this.#byDriver.get(runtime.hub.cgroupDriver) : undefined;
  }

  /** To be called when runtimes have answered. `capacity`: of the machine. */
  async open(runtimes: Iterable<PodRuntime>, capacity: Amounts): Promise<void> {
    const { config, log } = this.#options;
    const drivers = new Set([...runtimes].filter(({ hub }) => !hub.simulated).map(({ hub }) => hub.cgroupDriver));
    if (!config.cgroupsPerQos || drivers.size === 0) return;
    const tree = await CgroupTree.open(this.#options.mount);
    for (const driver of drivers) {
      try {
        if (!tree) throw new Error('there are no cgroups on this machine');
        this.#byDriver.set(driver, await this.#opened(driver === 'systemd' ? new SystemdSlices(tree) : tree, capacity));
      } catch (error) {
        log.warn(
          { err: error, driver },
          'pods have no cgroups of their own: their limits as a whole are not enforced, and runtimes place containers where they like',
        );
      }
    }
  }

  async #opened(cgroups: Cgroups, capacity: Amounts): Promise<PodCgroups> {
    const { config, owner, clock, log } = this.#options;
    const pods = new PodCgroups({
      cgroups,
      root: config.cgroupRoot ?? `/oarlock-${owner}`,
      node: nodeBounds(capacity, config.reserved),
      maxPids: config.podPidsLimit > 0 ? config.podPidsLimit : Infinity,
      clock,
      log,
    });
    await pods.open();
    return pods;
  }

  async keep(known: (uid: string) => boolean): Promise<void> {
    for (const pods of this.#byDriver.values()) await pods?.keep(known);
  }

  async close(): Promise<void> {
    for (const pods of this.#byDriver.values()) await pods?.close();
  }
}
