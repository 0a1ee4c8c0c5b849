import { jsonEqual } from '@oarlock/api/json/json';
import { quantityValue } from '@oarlock/api/values/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { LinuxResources, RuntimeCallOptions, RuntimeDriver } from '@oarlock/spi/runtime';
import { memoryCapacityOf } from '../pod-util/downward-api.ts';
import {
  effectiveResources,
  resourceDiffers,
  resizableResources,
  noResources,
  resizableContainers,
  sameResources,
  withAllocatedResources,
} from '../pod-util/allocated-resources.ts';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';

import type { ResizeRejection, ResizeStatus } from '../pod-util/resize-status.ts';
import type { CgroupRuntime, ContainerManager } from '../container-manager/container-manager.ts';
import type { ResizeMetrics } from '../metrics/resize-metrics.ts';
import { resizeEventMessage } from './resize-event-message.ts';
import type { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';
import { linuxResources, type Resources } from '../pod-util/resources.ts';

/** The properties of a pod that PodResize reads. */
export interface ResizeSubject {
  /** The pod with its allocated resources. PodResize replaces this object after an allocation. */
  pod: Pod;
  readonly state: Pick<RuntimePodStatus, 'latestContainer'>;
  readonly runtime:
    | (CgroupRuntime & { readonly pleg: { readonly driver: Pick<RuntimeDriver, 'updateContainerResources' | 'containerStats'> } })
    | undefined;
  readonly node: {
    readonly containerManager: Pick<ContainerManager, 'podContainerManager'>;
    readonly capacity: Resources;
    readonly cgroupV2: boolean;
    readonly clock: Clock;
    readonly metrics: { readonly resizes: ResizeMetrics };
  };
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

/** The properties of the pod worker's current pass that PodResize uses. */
export interface ResizePass {
  readonly signal: AbortSignal;
  step(name: string, work: (call: RuntimeCallOptions) => Promise<void>, attributes: Readonly<Record<string, string>>): Promise<void>;
  retryIn(ms: number): void;
}

const retryMs = 10_000;
/** Returns true if the container's `resizePolicy` requires a restart for this change of resources. */
function needsRestart({ resizePolicy = [] }: Container, resources: ResourceRequirements, has: ResourceRequirements): boolean {
  return resizableResources.some(
    (name) =>
      resourceDiffers(name, has, resources) &&
      resizePolicy.some((one) => one.resourceName === name && one.restartPolicy === 'RestartContainer'),
  );
}

/** The actual resources of a container, and the resources that limit the container: the pod-level resources if the container has no limit. */
interface ActualResources {
  readonly own: ResourceRequirements;
  readonly bounds: ResourceRequirements;
}

/**
 * Allocates resources to one pod and applies them to its containers (KEP-1287, KEP-5419). The record's pod always shows the allocated
 * resources, so that everything else follows them. No state is persisted: after a restart the reported statuses contain the actual resources,
 * and applying the same resources again is harmless.
 */
export class PodResize {
  readonly #record: ResizeSubject;
  readonly #admit: (pod: Pod) => ResizeRejection | undefined;
  #desiredPod: Pod | undefined;
  #pending: ResizeRejection | undefined;
  /** Actual resources of running containers, by id, where they differ from the allocated ones. */
  readonly #actual = new Map<string, ActualResources>();
  /** The pod-level resources before the resize in progress. */
  #previousPodResources: ResourceRequirements | undefined;
  #failure: string | undefined;
  /** True while the limits of the pod's cgroup differ from the allocated ones. */
  #cgroupUpdatePending = false;

  constructor(record: ResizeSubject, admit: (pod: Pod) => ResizeRejection | undefined) {
    this.#record = record;
    this.#admit = admit;
  }

  /** The newest version of the pod, with the resources that it requests. */
  get desiredPod(): Pod {
    return this.#desiredPod ?? this.#record.pod;
  }
  get report(): ResizeStatus {
    return { pending: this.#pending, progress: this.#inProgress ? { failure: this.#failure } : undefined };
  }
  actualResources(id: string): ResourceRequirements | undefined {
    return this.#actual.get(id)?.own;
  }
  /** The actual pod-level resources during a resize; undefined if they equal the allocated ones. */
  get actualPodResources(): ResourceRequirements | undefined {
    return this.#inProgress ? this.#previousPodResources : undefined;
  }

  get #inProgress(): boolean {
    return this.#actual.size > 0 || this.#cgroupUpdatePending;
  }

  /** Sets the newest version of the pod. The pod keeps its allocated resources until `allocate` is called. */
  setDesiredPod(pod: Pod): void {
    this.#desiredPod = pod;
    this.#record.pod = withAllocatedResources(pod, this.#record.pod);
  }

  /**
   * Allocates the requested resources if the node has them. Returns true if the allocated resources changed. Requires the current container
   * statuses in the record.
   */
  allocate(): boolean {
    const desired = this.#desiredPod;
    if (!desired) return false;
    const record = this.#record;
    const allocated = withAllocatedResources(desired, record.pod);
    if (allocated === desired) {
      this.#setAllocatedPod(desired);
      return false;
    }
    const rejection = this.#admit(desired);
    if (rejection) {
      if (!jsonEqual(rejection, this.#pending))
        record.event(
          'Warning',
          `Resize${rejection.reason}`,
          `Pod resize ${rejection.reason}: ${resizeEventMessage(desired, rejection.message)}`,
        );
      this.#pending = rejection;
      return false;
    }
    const podResources = allocated.spec?.resources;
    if (!this.#inProgress) this.#previousPodResources = podResources;
    for (const container of resizableContainers(allocated)) {
      const id = this.#runningId(container.name);
      if (id !== undefined && !this.#actual.has(id))
        this.#actual.set(id, { own: container.resources ?? noResources, bounds: effectiveResources(container, podResources) });
    }
    this.#setAllocatedPod(desired);
    this.#failure = undefined;
    this.#cgroupUpdatePending = this.#cgroups !== undefined;
    this.#dropStoppedContainers();
    if (this.#inProgress) record.event('Normal', 'ResizeStarted', `Pod resize started: ${resizeEventMessage(desired)}`);
    return true;
  }

  /** Returns true if the container must restart to get its allocated resources. */
  requiresRestart(id: string): boolean {
    const has = this.#actual.get(id);
    if (has === undefined) return false;
    const container = this.#containerOf(id);
    return container !== undefined && needsRestart(container, this.#bounds(container), has.bounds);
  }

  /** Applies the allocated resources to running containers that need no restart. Reports a failure as an event and schedules a retry. */
  async actuate(pass: ResizePass): Promise<void> {
    const { runtime, node } = this.#record;
    if (!runtime || !this.#inProgress) return;
    const from = node.clock.monotonic();
    const success = await this.#apply(pass, runtime.pleg.driver);
    if (success !== undefined) node.metrics.resizes.actuated(node.clock.monotonic() - from, success);
  }

  /** Returns true if everything that was applied succeeded; undefined if nothing was, because the containers must restart first. */
  async #apply(pass: ResizePass, driver: Pick<RuntimeDriver, 'updateContainerResources'>): Promise<boolean | undefined> {
    const { pod } = this.#record;
    this.#dropStoppedContainers();
    let success = this.#cgroupUpdatePending ? true : undefined;
    if (this.#cgroupUpdatePending && !(await this.#attempt(pass, () => this.#cgroups?.raiseLimits(pod)))) return false;
    for (const [id, has] of this.#actual) {
      const container = this.#containerOf(id);
      if (container === undefined || needsRestart(container, this.#bounds(container), has.bounds)) continue;
      const applied = await this.#attempt(pass, async () => {
        await this.#rejectLimitBelowUsage(id, { resources: this.#bounds(container), has: has.bounds, signal: pass.signal });
        await pass.step('UpdateContainerResources', (call) => driver.updateContainerResources(id, this.#linux(container), call), {
          'oarlock.container': container.name,
        });
        this.#actual.delete(id);
      });
      success = applied && success !== false;
    }
    return (await this.#complete(pass)) ? success : false;
  }

  /** Drops the state of containers that no longer run, because their next attempts start with the allocated resources. */
  async onContainersChanged(pass: ResizePass): Promise<void> {
    if (this.#actual.size === 0) return;
    this.#dropStoppedContainers();
    await this.#complete(pass);
  }

  /** Returns true if `work` succeeded; otherwise reports the error and schedules a retry. */
  async #attempt(pass: ResizePass, work: () => Promise<void> | undefined): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      pass.signal.throwIfAborted();
      const failure = errorText(error);
      if (failure !== this.#failure)
        this.#record.event('Warning', 'ResizeError', `Pod resize error: ${resizeEventMessage(this.#record.pod, failure)}`);
      this.#failure = failure;
      pass.retryIn(retryMs);
      return false;
    }
  }

  #dropStoppedContainers(): void {
    for (const [id, has] of this.#actual) {
      const container = this.#containerOf(id);
      if (container === undefined || (sameResources(container.resources, has.own) && sameResources(this.#bounds(container), has.bounds)))
        this.#actual.delete(id);
    }
  }

  #setAllocatedPod(pod: Pod): void {
    this.#record.pod = pod;
    this.#desiredPod = undefined;
    this.#pending = undefined;
  }

  /** Applies the pod's cgroup limits and reports the end of the resize once no container is pending. Returns false if the limits cannot be applied. */
  async #complete(pass: ResizePass): Promise<boolean> {
    if (this.#actual.size > 0) return true;
    if (this.#cgroupUpdatePending && !(await this.#attempt(pass, () => this.#cgroups?.applyLimits(this.#record.pod)))) return false;
    this.#cgroupUpdatePending = false;
    this.#failure = undefined;
    this.#record.event('Normal', 'ResizeCompleted', `Pod resize completed: ${resizeEventMessage(this.#record.pod)}`);
    return true;
  }

  get #cgroups() {
    return this.#record.node.containerManager.podContainerManager(this.#record.runtime);
  }

  #containerOf(id: string): Container | undefined {
    for (const container of resizableContainers(this.#record.pod)) if (this.#runningId(container.name) === id) return container;
    return undefined;
  }

  #bounds(container: Container): ResourceRequirements {
    return effectiveResources(container, this.#record.pod.spec?.resources);
  }

  #runningId(name: string): string | undefined {
    const status = this.#record.state.latestContainer(name);
    return status?.state === 'RUNNING' ? status.id : undefined;
  }

  /**
   * Rejects a decrease of a container's memory limit below the current memory usage, because the kernel would OOM-kill the container.
   * @throws Error if the new memory limit is below the container's working set
   */
  async #rejectLimitBelowUsage(
    id: string,
    {
      resources,
      has,
      signal,
    }: { readonly resources: ResourceRequirements; readonly has: ResourceRequirements; readonly signal: AbortSignal },
  ): Promise<void> {
    const limit = resources.limits?.['memory'];
    const before = has.limits?.['memory'];
    if (limit === undefined || (before !== undefined && quantityValue(before) <= quantityValue(limit))) return;
    const { memoryWorkingSetBytes } = (await this.#record.runtime?.pleg.driver.containerStats(id, { signal })) ?? {
      memoryWorkingSetBytes: 0,
    };
    if (memoryWorkingSetBytes > quantityValue(limit))
      throw new Error(`attempting to set container memory limit (${quantityValue(limit)}) below current usage (${memoryWorkingSetBytes})`);
  }

  /** Returns the resources that can change while a container runs. */
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
