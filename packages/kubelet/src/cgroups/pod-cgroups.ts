import { join } from 'node:path';
import { qosClass, type QosClass } from '@oarlock/api/pod-qos';
import { milliValue } from '@oarlock/api/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { podUid } from '../pods.ts';
import { cpuShares, podRequest } from '../resources.ts';
import type { CgroupBounds, Cgroups } from './cgroup-tree.ts';
import { podBounds } from './pod-bounds.ts';

export interface PodCgroupsOptions {
  readonly cgroups: Cgroups;
  /** Below which all are: `/`, or a place of this node's own. */
  readonly root: string;
  /** Of all pods of the node together. */
  readonly node: CgroupBounds;
  /** Processes and threads of any pod. */
  readonly maxPids: number;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Logger;
}

/** The longest wait for what was killed in a cgroup to leave it, in milliseconds. */
const longestWaitMs = 1000;
const classes: Readonly<Record<QosClass, string>> = { Guaranteed: '', Burstable: 'burstable', BestEffort: 'besteffort' };

/**
 * The cgroups of a node's pods, as upstream has them with `--cgroups-per-qos`: `kubepods`, in it one for each lesser class of service, and one for
 * each pod, below which runtimes make those of containers. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export class PodCgroups {
  readonly #options: PodCgroupsOptions;
  readonly #all: string;
  /** What burstable pods ask for, in thousandths of a cpu, by uid. */
  readonly #burstable = new Map<string, number>();
  #sum = 0;
  #shares: number | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: PodCgroupsOptions) {
    this.#options = options;
    this.#all = join(options.root, 'kubepods');
  }

  /** Makes those that all pods share. @throws Error when this process may not */
  async open(): Promise<void> {
    const { cgroups, root, node } = this.#options;
    if (root !== '/') await cgroups.make(root, { ...(node.cpuShares !== undefined && { cpuShares: node.cpuShares }) });
    await cgroups.make(this.#all, node);
    await cgroups.make(join(this.#all, classes.BestEffort), { cpuShares: cpuShares(0) });
    await cgroups.make(join(this.#all, classes.Burstable), { cpuShares: cpuShares(0) });
  }

  /** `/kubepods/burstable/pod<uid>`. */
  of(pod: Pod): string {
    return join(this.#all, classes[qosClass(pod.spec)], `pod${podUid(pod)}`);
  }

  /** Before the pod gets a sandbox. Idempotent. @throws the kernel's refusal */
  async make(pod: Pod): Promise<void> {
    this.count(pod);
    await this.#options.cgroups.make(this.of(pod), this.#boundsOf(pod));
  }

  /** Takes a pod into the books that runs already, or asks for something else. */
  count(pod: Pod): void {
    if (qosClass(pod.spec) !== 'Burstable') return;
    const uid = podUid(pod);
    const asked = milliValue(podRequest(pod, 'cpu'));
    this.#sum += asked - (this.#burstable.get(uid) ?? 0);
    this.#burstable.set(uid, asked);
    this.#share();
  }

  /** Makes room for containers that are about to be given more: nothing is made smaller yet. */
  async grow(pod: Pod): Promise<void> {
    const bounds = this.#boundsOf(pod);
    const { cpuQuota, memory } = await this.#options.cgroups.held(this.of(pod));
    await this.#options.cgroups.bound(this.of(pod), {
      ...bounds,
      cpuQuota: Math.max(cpuQuota, bounds.cpuQuota),
      memory: Math.max(memory, bounds.memory),
    });
  }

  /** All containers have what they were given: so has the pod. @throws Error when it uses more memory than it may */
  async settle(pod: Pod): Promise<void> {
    const { cgroups } = this.#options;
    const path = this.of(pod);
    const bounds = this.#boundsOf(pod);
    if (bounds.memory < (await cgroups.held(path)).memory) {
      const used = await cgroups.memoryInUse(path);
      if (used > bounds.memory) throw new Error(`attempting to set pod memory limit (${bounds.memory}) below current usage (${used})`);
    }
    await cgroups.bound(path, bounds);
    this.count(pod);
  }

  /** Nothing of the pod runs any more: whatever is left in it is killed. Idempotent. @throws Error when something stays */
  async remove(pod: Pod): Promise<void> {
    const uid = podUid(pod);
    this.#sum -= this.#burstable.get(uid) ?? 0;
    if (this.#burstable.delete(uid)) this.#share();
    // of a pod that only the runtime knows nobody can tell the class
    const paths = pod.spec?.containers.length ? [this.of(pod)] : Object.values(classes).map((name) => join(this.#all, name, `pod${uid}`));
    for (const path of paths) await this.#remove(path);
  }

  /** Those of pods that nobody knows any more. */
  async keep(known: (uid: string) => boolean): Promise<void> {
    const { cgroups, log } = this.#options;
    for (const name of Object.values(classes)) {
      const path = join(this.#all, name);
      for (const child of await cgroups.children(path)) {
        if (!child.startsWith('pod') || known(child.slice('pod'.length))) continue;
        await this.#remove(join(path, child)).catch((error: unknown) => log.warn({ err: error }, 'the cgroup of a pod that is gone stays'));
      }
    }
  }

  processes(pod: Pod): Promise<readonly number[]> {
    return this.#options.cgroups.processes(this.of(pod));
  }

  /** Takes away what no pod is in; the rest stays for the kubelet that comes. */
  async close(): Promise<void> {
    const { cgroups, root, log } = this.#options;
    await this.#writing;
    try {
      let left = false;
      for (const name of [classes.Burstable, classes.BestEffort, classes.Guaranteed]) {
        const path = join(this.#all, name);
        if ((await cgroups.children(path)).some((child) => child.startsWith('pod'))) left = true;
        else if (name !== classes.Guaranteed) await cgroups.remove(path);
      }
      if (!left) await cgroups.remove(root === '/' ? this.#all : root);
    } catch (error) {
      log.warn({ err: error }, 'the cgroups of pods stay');
    }
  }

  #boundsOf(pod: Pod): Required<CgroupBounds> {
    return podBounds(pod, this.#options.maxPids);
  }

  async #remove(path: string): Promise<void> {
    const { cgroups, clock } = this.#options;
    for (let wait = 5; !(await cgroups.remove(path)); wait *= 2) {
      if (wait > longestWaitMs) throw new Error(`the cgroup ${path} cannot be removed: processes stay in it`);
      for (const pid of await cgroups.processes(path)) kill(pid);
      await clock.sleep(wait);
    }
  }

  /** Burstable pods weigh together what they ask for together. One write after the other, of the newest. */
  #share(): void {
    const { cgroups, log } = this.#options;
    this.#writing = this.#writing.then(async () => {
      const shares = cpuShares(this.#sum);
      if (shares === this.#shares) return;
      this.#shares = shares;
      await cgroups.bound(join(this.#all, classes.Burstable), { cpuShares: shares }).catch((error: unknown) => {
        this.#shares = undefined;
        log.warn({ err: error }, 'the weight of burstable pods could not be set');
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
