import { join } from 'node:path';
import { qosClass, type QosClass } from '@oarlock/api/component-helpers/qos-class';
import { milliValue } from '@oarlock/api/values/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { podUid } from '../pod-util/pods.ts';
import type { CgroupPressure } from '../stats/pressure.ts';
import { cpuShares, podRequest } from '../pod-util/resources.ts';
import type { ResourceConfig, CgroupManager } from './cgroupfs-manager.ts';
import { podResourceConfig } from './resource-config.ts';

export interface PodContainerManagerOptions {
  readonly cgroups: CgroupManager;
  /** The parent cgroup of `kubepods`: `/`, or a cgroup of this node. */
  readonly root: string;
  /** The limits of the cgroup `kubepods`, which contains all pods of the node. */
  readonly node: ResourceConfig;
  /** The maximum number of processes and threads of a pod. */
  readonly maxPids: number;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Logger;
}

/** The maximum time to wait until killed processes have left their cgroup. Milliseconds. */
const longestWaitMs = 1000;
const classes: Readonly<Record<QosClass, string>> = { Guaranteed: '', Burstable: 'burstable', BestEffort: 'besteffort' };

/**
 * Manages the cgroups of a node's pods, as upstream with `--cgroups-per-qos`: `kubepods`, in it one cgroup for each of the QoS classes Burstable and
 * BestEffort, and one cgroup per pod. Runtimes create the containers' cgroups in the pod's cgroup.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export class PodContainerManager {
  readonly #options: PodContainerManagerOptions;
  readonly #all: string;
  /** The CPU requests of Burstable pods in millicores, keyed by pod uid. */
  readonly #burstable = new Map<string, number>();
  #sum = 0;
  #shares: number | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: PodContainerManagerOptions) {
    this.#options = options;
    this.#all = join(options.root, 'kubepods');
  }

  /** Creates the parent cgroups of the pods' cgroups. @throws Error if the process lacks the permission */
  async open(): Promise<void> {
    const { cgroups, root, node } = this.#options;
    if (root !== '/') await cgroups.create(root, { ...(node.cpuShares !== undefined && { cpuShares: node.cpuShares }) });
    await cgroups.create(this.#all, node);
    await cgroups.create(join(this.#all, classes.BestEffort), { cpuShares: cpuShares(0) });
    await cgroups.create(join(this.#all, classes.Burstable), { cpuShares: cpuShares(0) });
  }

  /** Returns the path of the pod's cgroup, for example `/kubepods/burstable/pod<uid>`. */
  podCgroupPath(pod: Pod): string {
    return join(this.#all, classes[qosClass(pod.spec)], `pod${podUid(pod)}`);
  }

  /** Creates the pod's cgroup. Must be called before the sandbox is created. Idempotent. @throws the kernel's error */
  async ensureExists(pod: Pod): Promise<void> {
    this.trackPod(pod);
    await this.#options.cgroups.create(this.podCgroupPath(pod), this.#boundsOf(pod));
  }

  /** Adds the CPU request of a running or resized pod to the total of its QoS class. */
  trackPod(pod: Pod): void {
    if (qosClass(pod.spec) !== 'Burstable') return;
    const uid = podUid(pod);
    const asked = milliValue(podRequest(pod, 'cpu'));
    this.#sum += asked - (this.#burstable.get(uid) ?? 0);
    this.#burstable.set(uid, asked);
    this.#updateBurstableShares();
  }

  /** Raises the limits of the pod's cgroup before its containers get more resources. Lowers no limit. */
  async raiseLimits(pod: Pod): Promise<void> {
    const bounds = this.#boundsOf(pod);
    const { cpuQuota, memory } = await this.#options.cgroups.resourceConfig(this.podCgroupPath(pod));
    await this.#options.cgroups.update(this.podCgroupPath(pod), {
      ...bounds,
      cpuQuota: Math.max(cpuQuota, bounds.cpuQuota),
      memory: Math.max(memory, bounds.memory),
    });
  }

  /** Applies the pod's cgroup limits after its containers were resized. @throws Error if the pod's memory usage exceeds the new limit */
  async applyLimits(pod: Pod): Promise<void> {
    const { cgroups } = this.#options;
    const path = this.podCgroupPath(pod);
    const bounds = this.#boundsOf(pod);
    if (bounds.memory < (await cgroups.resourceConfig(path)).memory) {
      const used = await cgroups.memoryUsage(path);
      if (used > bounds.memory) throw new Error(`attempting to set pod memory limit (${bounds.memory}) below current usage (${used})`);
    }
    await cgroups.update(path, bounds);
    this.trackPod(pod);
  }

  /** Kills the remaining processes of the pod and removes its cgroup. Idempotent. @throws Error if processes remain */
  async destroy(pod: Pod): Promise<void> {
    const uid = podUid(pod);
    this.#sum -= this.#burstable.get(uid) ?? 0;
    if (this.#burstable.delete(uid)) this.#updateBurstableShares();
    // the QoS class of a pod that only the runtime has is unknown
    const paths = pod.spec?.containers.length
      ? [this.podCgroupPath(pod)]
      : Object.values(classes).map((name) => join(this.#all, name, `pod${uid}`));
    for (const path of paths) await this.#remove(path);
  }

  /** Removes the cgroups of pods for which `known` returns false. */
  async removeOrphanedPodCgroups(known: (uid: string) => boolean): Promise<void> {
    const { cgroups, log } = this.#options;
    for (const name of Object.values(classes)) {
      const path = join(this.#all, name);
      for (const child of await cgroups.children(path)) {
        if (!child.startsWith('pod') || known(child.slice('pod'.length))) continue;
        await this.#remove(join(path, child)).catch((error: unknown) =>
          log.warn({ err: error }, 'removing the cgroup of an orphaned pod failed'),
        );
      }
    }
  }

  /** Returns the pressure stall information of the pod and of the cgroups of its containers; undefined with cgroup v1. */
  pressure(pod: Pod): Promise<CgroupPressure | undefined> {
    return this.#options.cgroups.pressure(this.podCgroupPath(pod));
  }

  processes(pod: Pod): Promise<readonly number[]> {
    return this.#options.cgroups.pids(this.podCgroupPath(pod));
  }

  /** Removes the cgroups that contain no pod. A restarted kubelet uses the remaining cgroups. */
  async close(): Promise<void> {
    const { cgroups, root, log } = this.#options;
    await this.#writing;
    try {
      let left = false;
      for (const name of [classes.Burstable, classes.BestEffort, classes.Guaranteed]) {
        const path = join(this.#all, name);
        if ((await cgroups.children(path)).some((child) => child.startsWith('pod'))) left = true;
        else if (name !== classes.Guaranteed) await cgroups.destroy(path);
      }
      if (!left) await cgroups.destroy(root === '/' ? this.#all : root);
    } catch (error) {
      log.warn({ err: error }, 'removing the cgroups of pods failed');
    }
  }

  #boundsOf(pod: Pod): Required<ResourceConfig> {
    return podResourceConfig(pod, this.#options.maxPids);
  }

  async #remove(path: string): Promise<void> {
    const { cgroups, clock } = this.#options;
    for (let wait = 5; !(await cgroups.destroy(path)); wait *= 2) {
      if (wait > longestWaitMs) throw new Error(`the cgroup ${path} cannot be removed: processes stay in it`);
      for (const pid of await cgroups.pids(path)) kill(pid);
      await clock.sleep(wait);
    }
  }

  /** Sets the CPU shares of the Burstable cgroup to the sum of its pods' requests. Writes do not overlap; the newest value wins. */
  #updateBurstableShares(): void {
    const { cgroups, log } = this.#options;
    this.#writing = this.#writing.then(async () => {
      const shares = cpuShares(this.#sum);
      if (shares === this.#shares) return;
      this.#shares = shares;
      await cgroups.update(join(this.#all, classes.Burstable), { cpuShares: shares }).catch((error: unknown) => {
        this.#shares = undefined;
        log.warn({ err: error }, 'setting the cpu shares of burstable pods failed');
      });
    });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
