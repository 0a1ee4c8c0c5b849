import { own } from '@oarlock/api/json/json';
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ParsedQuantity, parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { Container, EphemeralContainer, Pod, ResourceStatus } from '@oarlock/api/types/core-v1';
import type { Logger } from '@oarlock/primitives/logger';
import type { AdmissionRejection } from '../../pod-util/admission-rejection.ts';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { podUid } from '../../pod-util/pods.ts';
import type { Resources } from '../../pod-util/resources.ts';
import { readCheckpoint, writeCheckpoint } from '../checkpoint.ts';
import type { ContainerDevices, RegisterRequest } from './device-plugin-messages.ts';
import type { DevicePlugin } from './device-plugin.ts';

export interface DeviceManagerOptions {
  /** The directory of `kubelet.sock` and of the device plugins' sockets. */
  readonly directory: string;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called when the devices of the node changed. */
  changed(): void;
}

/** Device ids by container name and resource name. */
type PodDevices = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
interface Checkpoint {
  readonly pods: Readonly<Record<string, PodDevices>>;
  readonly resources: readonly string[];
}
const version = 'v1beta1';
const none: ContainerDevices = { envs: {}, mounts: [], devices: [], annotations: {} };

/**
 * Registers device plugins (KEP-3573), adds their devices to the node's resources and allocates devices to containers. A checkpoint file stores
 * the allocations, so that a restarted kubelet does not allocate a device twice.
 */
export class DeviceManager {
  readonly #options: DeviceManagerOptions;
  readonly #plugins = new Map<string, DevicePlugin>();
  /** The names of all resources that were ever registered. The node reports 0 for a resource whose device plugin is gone. */
  readonly #resources = new Set<string>();
  readonly #pods = new Map<string, PodDevices>();
  #server: { close(): Promise<void> } | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: DeviceManagerOptions) {
    this.#options = options;
  }

  /** Loads the checkpoint and serves the registration socket. @throws Error if either fails */
  async start(): Promise<void> {
    const { directory, log } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o755 });
    const { pods = {}, resources = [] } = (await readCheckpoint<Checkpoint>(this.#file)) ?? {};
    for (const [uid, devices] of Object.entries(pods)) this.#pods.set(uid, devices);
    for (const resource of resources) this.#resources.add(resource);
    // gRPC is loaded only where device plugins are configured
    const { serveRegistration, DevicePlugin } = await import('./device-plugin.ts');
    this.#server = await serveRegistration(join(directory, 'kubelet.sock'), {
      register: (request) => {
        const problem = rejectionReason(request);
        if (problem === undefined) this.#register(request, new DevicePlugin(join(directory, request.endpoint), request));
        return problem;
      },
      failed: (error) => log.warn({ err: error }, 'registering a device plugin failed'),
    });
  }

  async stop(): Promise<void> {
    for (const plugin of this.#plugins.values()) plugin.stop();
    await this.#server?.close();
    await this.#saving;
  }

  /** The node's device resources: all devices as capacity, healthy devices as allocatable. */
  get resources(): { readonly capacity: Resources; readonly allocatable: Resources } {
    const capacity: Record<string, ParsedQuantity> = {};
    const allocatable: Record<string, ParsedQuantity> = {};
    for (const resource of this.#resources) {
      const devices = [...(this.#plugins.get(resource)?.devices.values() ?? [])];
      capacity[resource] = ParsedQuantity.of(devices.length);
      allocatable[resource] = ParsedQuantity.of(devices.filter(Boolean).length);
    }
    return { capacity, allocatable };
  }

  /** Allocates devices to a pod. A pod keeps devices that it already has. Returns why the pod is rejected, or undefined if it is admitted. */
  allocate(pod: Pod): AdmissionRejection | undefined {
    const uid = podUid(pod);
    if (this.#pods.has(uid)) return undefined;
    const chosen = new Map<string, Record<string, readonly string[]>>();
    const used = new Set([...this.#pods.values()].flatMap(idsOf));
    // devices of init containers that run to completion can be reused by later containers
    const reusable = new Map<string, string[]>();
    const { initContainers = [], containers = [] } = pod.spec ?? {};
    for (const [index, container] of [...initContainers, ...containers].entries()) {
      for (const [resource, quantity] of Object.entries(container.resources?.limits ?? {})) {
        const plugin = this.#plugins.get(resource);
        const count = quantityValue(parseQuantity(quantity));
        if (count === 0 || (!plugin && !this.#resources.has(resource))) continue;
        const reused = reusable.get(resource) ?? [];
        const free = [...(plugin?.devices ?? [])].filter(([id, healthy]) => healthy && !used.has(`${resource} ${id}`)).map(([id]) => id);
        const all = [...reused, ...free];
        if (all.length < count) return unavailable(resource, count, all.length);
        const ids = all.slice(0, count);
        for (const id of ids) used.add(`${resource} ${id}`);
        const stays = index >= initContainers.length || isRestartableInitContainer(container);
        reusable.set(resource, stays ? reused.filter((id) => !ids.includes(id)) : [...new Set([...reused, ...ids])]);
        chosen.set(container.name, { ...chosen.get(container.name), [resource]: ids });
      }
    }
    if (chosen.size === 0) return undefined;
    this.#pods.set(uid, Object.fromEntries(chosen));
    this.#save();
    return undefined;
  }

  /** The uids of pods with allocated devices. */
  get podsWithDevices(): Iterable<string> {
    return this.#pods.keys();
  }

  /** Returns the health of a container's devices as the device plugin last reported it; `Unknown` if it never did (KEP-4680). */
  healthOf(uid: string, container: string): readonly ResourceStatus[] {
    return Object.entries(own(this.#pods.get(uid), container) ?? {}).map(([resource, ids]) => {
      const devices = this.#plugins.get(resource)?.devices;
      const healthOf = (healthy: boolean | undefined) => (healthy === undefined ? 'Unknown' : healthy ? 'Healthy' : 'Unhealthy');
      return { name: resource, resources: ids.map((resourceID) => ({ resourceID, health: healthOf(devices?.get(resourceID)) })) };
    });
  }

  /** Releases the devices of pods that no longer exist. */
  removeStalePods(present: (uid: string) => boolean): void {
    for (const uid of this.#pods.keys()) if (!present(uid)) this.release(uid);
  }

  release(uid: string): void {
    if (this.#pods.delete(uid)) this.#save();
  }

  /**
   * Calls Allocate and PreStartContainer of the container's device plugins and returns the combined result.
   * @throws GrpcError if a call fails, Error if a device plugin is not registered
   */
  async containerDevices(pod: Pod, container: Container | EphemeralContainer, signal: AbortSignal): Promise<ContainerDevices> {
    const allocated = own(this.#pods.get(podUid(pod)), container.name);
    if (allocated === undefined) return none;
    let all = none;
    for (const [resource, ids] of Object.entries(allocated)) {
      const plugin = this.#plugins.get(resource);
      if (!plugin) throw new Error(`the device plugin of ${resource} is not registered`);
      const one = (await plugin.allocate(ids, signal)) ?? none;
      await plugin.preStartContainer(ids, signal);
      all = {
        envs: { ...all.envs, ...one.envs },
        mounts: [...all.mounts, ...one.mounts],
        devices: [...all.devices, ...one.devices],
        annotations: { ...all.annotations, ...one.annotations },
        cdiDevices: [...(all.cdiDevices ?? []), ...(one.cdiDevices ?? [])],
      };
    }
    return all;
  }

  #register({ resourceName }: RegisterRequest, plugin: DevicePlugin): void {
    const { log, signal, changed } = this.#options;
    this.#plugins.get(resourceName)?.stop();
    this.#plugins.set(resourceName, plugin);
    this.#resources.add(resourceName);
    this.#save();
    const onDevicesChanged = () => {
      if (this.#plugins.get(resourceName) === plugin) changed();
    };
    plugin.listAndWatch(onDevicesChanged).catch((error: unknown) => {
      if (!signal.aborted && this.#plugins.get(resourceName) === plugin)
        log.warn({ err: error, resource: resourceName }, 'the connection to a device plugin ended');
    });
  }

  get #file(): string {
    return join(this.#options.directory, 'kubelet_internal_checkpoint');
  }

  /** Writes the checkpoint. Writes do not overlap; the newest state wins. */
  #save(): void {
    const { log } = this.#options;
    const state: Checkpoint = { pods: Object.fromEntries(this.#pods), resources: [...this.#resources] };
    this.#saving = this.#saving
      .then(() => writeCheckpoint(this.#file, state))
      .catch((error: unknown) => log.warn({ err: error }, 'writing the device checkpoint failed'));
  }
}

/** Returns, in upstream's words, why a device plugin cannot be registered; undefined if it can. */
function rejectionReason({ version: requestedVersion, endpoint, resourceName }: RegisterRequest): string | undefined {
  if (requestedVersion !== version)
    return `requested API version "${requestedVersion}" is not supported by kubelet. Supported version is ["${version}"]`;
  if (
    !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(resourceName) ||
    resourceName.startsWith('kubernetes.io/')
  )
    return `the ResourceName "${resourceName}" is invalid`;
  return endpoint === '' || basename(endpoint) !== endpoint ? `the endpoint "${endpoint}" is not a file name` : undefined;
}

const idsOf = (devices: PodDevices) =>
  Object.values(devices).flatMap((byResource) =>
    Object.entries(byResource).flatMap(([resource, ids]) => ids.map((id) => `${resource} ${id}`)),
  );

const unavailable = (resource: string, requested: number, available: number): AdmissionRejection => ({
  reason: 'UnexpectedAdmissionError',
  message: `Pod was rejected: Allocate failed due to requested number of devices unavailable for ${resource}. Requested: ${requested}, Available: ${available}, which is unexpected`,
});
