import { jsonEqual } from '@oarlock/api/json';
import { value } from '@oarlock/api/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { LinuxResources } from '@oarlock/spi/runtime';
import { memoryCapacityOf } from './field-values.ts';
import { boundsOf, differs, names, none, resizable, sameAmounts, withResourcesOf } from './given-resources.ts';
import { isSidecar } from './pods.ts';
import type { PodRecord } from './pod-record.ts';
import { linuxResources } from './resources.ts';
import type { SyncPass } from './sync-pass.ts';

/** Why a pod does not get now what it asks for (KEP-1287). `Deferred`: when others have gone. `Infeasible`: never on this node. */
export interface ResizeRefusal {
  readonly reason: 'Deferred' | 'Infeasible';
  readonly message: string;
}

/** What of a resize is to be told: absent parts have nothing to tell. */
export interface ResizeReport {
  readonly pending: ResizeRefusal | undefined;
  /** Running containers do not have yet what their pod was given; why, when it was tried. */
  readonly progress: { readonly failure: string | undefined } | undefined;
}

const retryMs = 10_000;
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Whether a change of resources needs the container to be started anew, by its `resizePolicy`. */
function needsRestart({ resizePolicy = [] }: Container, resources: ResourceRequirements, has: ResourceRequirements): boolean {
  return names.some(
    (name) =>
      differs(name, has, resources) && resizePolicy.some((one) => one.resourceName === name && one.restartPolicy === 'RestartContainer'),
  );
}

function told(pod: Pod, error?: string): string {
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const list = (all: readonly Container[]) => all.map(({ name, resources }) => ({ name, ...(resources && { resources }) }));
  const sidecars = initContainers.filter(isSidecar);
  return JSON.stringify({
    ...(pod.spec?.resources && { resources: pod.spec.resources }),
    ...(sidecars.length > 0 && { initContainers: list(sidecars) }),
    containers: list(containers),
    generation: pod.metadata?.generation ?? 0,
    ...(error !== undefined && { error }),
  });
}

/** What a container has: what it was given itself, and what bounds it, which may be the pod's. */
interface Held {
  readonly own: ResourceRequirements;
  readonly bounds: ResourceRequirements;
}

/**
 * What one pod has been given of what it asks for. The record's pod always shows what was given: everything that runs follows it alone.
 * Nothing of it needs to be kept: statuses say what containers have, and applying something again does no harm.
 */
export class PodResize {
  readonly #record: PodRecord;
  readonly #admit: (pod: Pod) => ResizeRefusal | undefined;
  #wanted: Pod | undefined;
  #pending: ResizeRefusal | undefined;
  /** What running containers still have, by id, where that is not what the pod was given. */
  readonly #has = new Map<string, Held>();
  /** What the pod as a whole had before all its containers had what it was given. */
  #hadWhole: ResourceRequirements | undefined;
  #failure: string | undefined;
  /** The pod's own cgroup is not yet what the pod was given. */
  #cgroupDue = false;

  constructor(record: PodRecord, admit: (pod: Pod) => ResizeRefusal | undefined) {
    this.#record = record;
    this.#admit = admit;
  }

  get report(): ResizeReport {
    return { pending: this.#pending, progress: this.#underWay ? { failure: this.#failure } : undefined };
  }
  has(id: string): ResourceRequirements | undefined {
    return this.#has.get(id)?.own;
  }
  /** What the pod as a whole has; undefined: what it was given. */
  get hasWhole(): ResourceRequirements | undefined {
    return this.#underWay ? this.#hadWhole : undefined;
  }

  get #underWay(): boolean {
    return this.#has.size > 0 || this.#cgroupDue;
  }

  /** The newest state of the pod. It keeps what it was given until the next pass. */
  want(pod: Pod): void {
    this.#wanted = pod;
    this.#record.pod = withResourcesOf(pod, this.#record.pod);
  }

  /** Gives the pod what it asks for, if that can be now. Returns whether its resources have changed. To be called when it is known what runs. */
  decide(): boolean {
    const wanted = this.#wanted;
    if (!wanted) return false;
    const record = this.#record;
    const held = withResourcesOf(wanted, record.pod);
    if (held === wanted) {
      this.#settle(wanted);
      return false;
    }
    const refusal = this.#admit(wanted);
    if (refusal) {
      if (!jsonEqual(refusal, this.#pending))
        record.event('Warning', `Resize${refusal.reason}`, `Pod resize ${refusal.reason}: ${told(wanted, refusal.message)}`);
      this.#pending = refusal;
      return false;
    }
    const whole = held.spec?.resources;
    if (!this.#underWay) this.#hadWhole = whole;
    for (const container of resizable(held)) {
      const id = this.#runningId(container.name);
      if (id !== undefined && !this.#has.has(id))
        this.#has.set(id, { own: container.resources ?? none, bounds: boundsOf(container, whole) });
    }
    this.#settle(wanted);
    this.#failure = undefined;
    this.#cgroupDue = this.#cgroups !== undefined;
    this.#forgetEnded();
    if (this.#underWay) record.event('Normal', 'ResizeStarted', `Pod resize started: ${told(wanted)}`);
    return true;
  }

  /** The container has to be started anew for what it was given. */
  restarts(id: string): boolean {
    const has = this.#has.get(id);
    if (has === undefined) return false;
    const container = this.#containerOf(id);
    return container !== undefined && needsRestart(container, this.#bounds(container), has.bounds);
  }

  /** Changes running containers that need no restart. What fails is told, and tried again later. */
  async apply(pass: SyncPass): Promise<void> {
    const { runtime, pod } = this.#record;
    if (!runtime || !this.#underWay) return;
    this.#forgetEnded();
    if (this.#cgroupDue && !(await this.#attempt(pass, () => this.#cgroups?.grow(pod)))) return;
    for (const [id, has] of this.#has) {
      const container = this.#containerOf(id);
      if (container === undefined || needsRestart(container, this.#bounds(container), has.bounds)) continue;
      await this.#attempt(pass, async () => {
        await this.#refuseTooLittle(id, this.#bounds(container), has.bounds, pass.signal);
        await pass.step(
          'UpdateContainerResources',
          (call) => runtime.hub.driver.updateContainerResources(id, this.#linux(container), call),
          { 'oarlock.container': container.name },
        );
        this.#has.delete(id);
      });
    }
    await this.#complete(pass);
  }

  /** Forgets containers that do not run any more: what comes after them has what the pod was given. */
  async ended(pass: SyncPass): Promise<void> {
    if (this.#has.size === 0) return;
    this.#forgetEnded();
    await this.#complete(pass);
  }

  /** Whether it could be done. If not, that is told, and tried again later. */
  async #attempt(pass: SyncPass, work: () => Promise<void> | undefined): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      pass.signal.throwIfAborted();
      const failure = messageOf(error);
      if (failure !== this.#failure) this.#record.event('Warning', 'ResizeError', `Pod resize error: ${told(this.#record.pod, failure)}`);
      this.#failure = failure;
      pass.retryIn(retryMs);
      return false;
    }
  }

  #forgetEnded(): void {
    for (const [id, has] of this.#has) {
      const container = this.#containerOf(id);
      if (container === undefined || (sameAmounts(container.resources, has.own) && sameAmounts(this.#bounds(container), has.bounds)))
        this.#has.delete(id);
    }
  }

  #settle(pod: Pod): void {
    this.#record.pod = pod;
    this.#wanted = undefined;
    this.#pending = undefined;
  }

  /** All containers have what they were given: so has the pod as a whole. */
  async #complete(pass: SyncPass): Promise<void> {
    if (this.#has.size > 0) return;
    if (this.#cgroupDue && !(await this.#attempt(pass, () => this.#cgroups?.settle(this.#record.pod)))) return;
    this.#cgroupDue = false;
    this.#failure = undefined;
    this.#record.event('Normal', 'ResizeCompleted', `Pod resize completed: ${told(this.#record.pod)}`);
  }

  get #cgroups() {
    return this.#record.node.cgroups.of(this.#record.runtime);
  }

  #containerOf(id: string): Container | undefined {
    for (const container of resizable(this.#record.pod)) if (this.#runningId(container.name) === id) return container;
    return undefined;
  }

  #bounds(container: Container): ResourceRequirements {
    return boundsOf(container, this.#record.pod.spec?.resources);
  }

  #runningId(name: string): string | undefined {
    const status = this.#record.state.latest(name);
    return status?.state === 'RUNNING' ? status.id : undefined;
  }

  /** A limit below what is used would end the container rather than make it smaller. */
  async #refuseTooLittle(id: string, resources: ResourceRequirements, has: ResourceRequirements, signal: AbortSignal): Promise<void> {
    const limit = resources.limits?.['memory'];
    const before = has.limits?.['memory'];
    if (limit === undefined || (before !== undefined && value(before) <= value(limit))) return;
    const { memoryWorkingSetBytes } = (await this.#record.runtime?.hub.driver.containerStats(id, { signal })) ?? {
      memoryWorkingSetBytes: 0,
    };
    if (memoryWorkingSetBytes > value(limit))
      throw new Error(`attempting to set container memory limit (${value(limit)}) below current usage (${memoryWorkingSetBytes})`);
  }

  /** Only what can change while a container runs. */
  #linux(container: Container): LinuxResources {
    const { pod, node } = this.#record;
    const {
      oomScoreAdj: _,
      unified: __,
      ...resources
    } = linuxResources(pod, container, {
      memoryCapacity: memoryCapacityOf(node.capacity),
      cgroupV2: node.cgroupV2,
    });
    return resources;
  }
}
