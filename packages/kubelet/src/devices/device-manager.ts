import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Amount, parseQuantity, value } from '@oarlock/api/quantity';
import type { Container, EphemeralContainer, Pod, ResourceStatus } from '@oarlock/api/types/core-v1';
import type { Logger } from '@oarlock/kernel/logger';
import type { Refusal } from '../node/admission.ts';
import { isSidecar, podUid } from '../pods.ts';
import type { Amounts } from '../resources.ts';
import type { ContainerDevices, RegisterRequest } from './device-messages.ts';
import type { DevicePlugin } from './device-plugin.ts';

export interface DeviceManagerOptions {
  /** Where plugins find `kubelet.sock` and put their own sockets. */
  readonly directory: string;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** The node has other devices than before. */
  changed(): void;
}

/** Ids by resource by container. */
type PodDevices = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
interface Checkpoint {
  readonly pods: Readonly<Record<string, PodDevices>>;
  readonly resources: readonly string[];
}
const version = 'v1beta1';
const none: ContainerDevices = { envs: {}, mounts: [], devices: [], annotations: {} };

/**
 * Devices of this machine that plugins tell of: counted among the node's resources, and given to containers that ask for them, each to one
 * pod. What was given to whom is on the disk, so that a kubelet that begins gives nothing twice.
 */
export class DeviceManager {
  readonly #options: DeviceManagerOptions;
  readonly #plugins = new Map<string, DevicePlugin>();
  /** Resources that there ever were: the node says 0 of those that are gone. */
  readonly #resources = new Set<string>();
  readonly #pods = new Map<string, PodDevices>();
  #server: { close(): Promise<void> } | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: DeviceManagerOptions) {
    this.#options = options;
  }

  /** Reads what was given before, and listens for plugins. @throws Error when it cannot listen */
  async start(): Promise<void> {
    const { directory, log } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o755 });
    const text = await readFile(this.#file, 'utf8').catch(() => undefined);
    if (text !== undefined) {
      const { pods, resources } = JSON.parse(text) as Checkpoint;
      for (const [uid, devices] of Object.entries(pods)) this.#pods.set(uid, devices);
      for (const resource of resources) this.#resources.add(resource);
    }
    // gRPC is loaded where there may be plugins, and nowhere else
    const { serveRegistration, DevicePlugin } = await import('./device-plugin.ts');
    this.#server = await serveRegistration(join(directory, 'kubelet.sock'), {
      register: (request) => {
        const problem = problemOf(request);
        if (problem === undefined) this.#take(request, new DevicePlugin(join(directory, request.endpoint), request));
        return problem;
      },
      failed: (error) => log.warn({ err: error }, 'a device plugin could not be registered'),
    });
  }

  async stop(): Promise<void> {
    for (const plugin of this.#plugins.values()) plugin.stop();
    await this.#server?.close();
    await this.#saving;
  }

  /** What the node has, and what of it can be used. */
  get amounts(): { readonly capacity: Amounts; readonly allocatable: Amounts } {
    const capacity: Record<string, Amount> = {};
    const allocatable: Record<string, Amount> = {};
    for (const resource of this.#resources) {
      const devices = [...(this.#plugins.get(resource)?.devices.values() ?? [])];
      capacity[resource] = Amount.of(devices.length);
      allocatable[resource] = Amount.of(devices.filter(Boolean).length);
    }
    return { capacity, allocatable };
  }

  /** Chooses devices for a pod, or says why it cannot have them. What it has already it keeps. */
  take(pod: Pod): Refusal | undefined {
    const uid = podUid(pod);
    if (this.#pods.has(uid)) return undefined;
    const chosen: Record<string, Record<string, readonly string[]>> = {};
    const used = new Set([...this.#pods.values()].flatMap(idsOf));
    // devices of init containers that end are free for those that come after
    const reusable = new Map<string, string[]>();
    const { initContainers = [], containers = [] } = pod.spec ?? {};
    for (const [index, container] of [...initContainers, ...containers].entries()) {
      for (const [resource, quantity] of Object.entries(container.resources?.limits ?? {})) {
        const plugin = this.#plugins.get(resource);
        const count = value(parseQuantity(quantity));
        if (count === 0 || (!plugin && !this.#resources.has(resource))) continue;
        const mine = reusable.get(resource) ?? [];
        const free = [...(plugin?.devices ?? [])].filter(([id, healthy]) => healthy && !used.has(`${resource} ${id}`)).map(([id]) => id);
        const all = [...mine, ...free];
        if (all.length < count) return unavailable(resource, count, all.length);
        const ids = all.slice(0, count);
        for (const id of ids) used.add(`${resource} ${id}`);
        const stays = index >= initContainers.length || isSidecar(container);
        reusable.set(resource, stays ? mine.filter((id) => !ids.includes(id)) : [...new Set([...mine, ...ids])]);
        (chosen[container.name] ??= {})[resource] = ids;
      }
    }
    if (Object.keys(chosen).length === 0) return undefined;
    this.#pods.set(uid, chosen);
    this.#save();
    return undefined;
  }

  /** Pods that hold devices. */
  get holders(): Iterable<string> {
    return this.#pods.keys();
  }

  /** How the devices of a container are, as their plugin last said (KEP-4680). `Unknown`: it does not speak of them. */
  healthOf(uid: string, container: string): readonly ResourceStatus[] {
    return Object.entries(this.#pods.get(uid)?.[container] ?? {}).map(([resource, ids]) => {
      const devices = this.#plugins.get(resource)?.devices;
      const healthOf = (healthy: boolean | undefined) => (healthy === undefined ? 'Unknown' : healthy ? 'Healthy' : 'Unhealthy');
      return { name: resource, resources: ids.map((resourceID) => ({ resourceID, health: healthOf(devices?.get(resourceID)) })) };
    });
  }

  /** Frees what pods held that are not there any more. */
  keep(present: (uid: string) => boolean): void {
    for (const uid of this.#pods.keys()) if (!present(uid)) this.release(uid);
  }

  release(uid: string): void {
    if (this.#pods.delete(uid)) this.#save();
  }

  /** Asks the plugins for what a container needs to use its devices. @throws GrpcError; Error when a plugin is not there */
  async prepare(pod: Pod, container: Container | EphemeralContainer, signal: AbortSignal): Promise<ContainerDevices> {
    const given = this.#pods.get(podUid(pod))?.[container.name];
    if (given === undefined) return none;
    let all = none;
    for (const [resource, ids] of Object.entries(given)) {
      const plugin = this.#plugins.get(resource);
      if (!plugin) throw new Error(`the device plugin of ${resource} is not registered`);
      const one = (await plugin.allocate(ids, signal)) ?? none;
      await plugin.beforeStart(ids, signal);
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

  #take({ resourceName }: RegisterRequest, plugin: DevicePlugin): void {
    const { log, signal, changed } = this.#options;
    this.#plugins.get(resourceName)?.stop();
    this.#plugins.set(resourceName, plugin);
    this.#resources.add(resourceName);
    this.#save();
    const told = () => {
      if (this.#plugins.get(resourceName) === plugin) changed();
    };
    plugin.follow(told).catch((error: unknown) => {
      if (!signal.aborted && this.#plugins.get(resourceName) === plugin)
        log.warn({ err: error, resource: resourceName }, 'a device plugin has gone');
    });
  }

  get #file(): string {
    return join(this.#options.directory, 'kubelet_internal_checkpoint');
  }

  /** One write after the other; the last state wins. */
  #save(): void {
    const { log } = this.#options;
    const state: Checkpoint = { pods: Object.fromEntries(this.#pods), resources: [...this.#resources] };
    this.#saving = this.#saving
      .then(async () => {
        await writeFile(`${this.#file}.new`, JSON.stringify(state), { mode: 0o600 });
        await rename(`${this.#file}.new`, this.#file);
      })
      .catch((error: unknown) => log.warn({ err: error }, 'which devices were given to whom could not be written down'));
  }
}

/** Why a plugin cannot be registered, in upstream's words; undefined: it can. */
function problemOf({ version: spoken, endpoint, resourceName }: RegisterRequest): string | undefined {
  if (spoken !== version) return `requested API version "${spoken}" is not supported by kubelet. Supported version is ["${version}"]`;
  if (
    !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(resourceName) ||
    resourceName.startsWith('kubernetes.io/')
  )
    return `the ResourceName "${resourceName}" is invalid`;
  return endpoint === '' || basename(endpoint) !== endpoint ? `the endpoint "${endpoint}" is no file name` : undefined;
}

const idsOf = (devices: PodDevices) =>
  Object.values(devices).flatMap((byResource) =>
    Object.entries(byResource).flatMap(([resource, ids]) => ids.map((id) => `${resource} ${id}`)),
  );

const unavailable = (resource: string, requested: number, available: number): Refusal => ({
  reason: 'UnexpectedAdmissionError',
  message: `Pod was rejected: Allocate failed due to requested number of devices unavailable for ${resource}. Requested: ${requested}, Available: ${available}, which is unexpected`,
});
