import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import { podUid } from '../../pod-util/pods.ts';
import { readCheckpoint, writeCheckpoint } from '../checkpoint.ts';
import type { DRAPlugin } from './dra-plugin.ts';
import type { ClaimReference, PreparedDevice } from './dra-plugin-messages.ts';

export interface DRAManagerOptions {
  /** The directory of the DRA drivers' registration sockets (upstream: /var/lib/kubelet/plugins_registry). */
  readonly registryDir: string;
  /** The path of the checkpoint file of prepared ResourceClaims. */
  readonly file: string;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A ResourceClaim that pods of this node use. The checkpoint contains it before a DRA driver is called. */
interface Prepared extends ClaimReference {
  /** The uids of this node's pods that use the ResourceClaim. */
  readonly pods: readonly string[];
  /** The prepared devices, keyed by driver name; empty until the driver has responded. */
  readonly devices: Readonly<Record<string, readonly PreparedDevice[]>>;
}

/**
 * Prepares the ResourceClaims of a pod through the node's DRA drivers before the pod starts, and unprepares a ResourceClaim after its last pod
 * has terminated (KEP-4381). Containers get the CDI devices that the driver returns.
 */
export class DRAManager {
  readonly #options: DRAManagerOptions;
  readonly #drivers = new Map<string, DRAPlugin>();
  /** Prepared ResourceClaims, keyed by uid. */
  readonly #claims = new Map<string, Prepared>();
  readonly #locks = new KeyedLock();
  #pluginWatcher: { stop(): Promise<void> } | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: DRAManagerOptions) {
    this.#options = options;
  }

  /** Loads the checkpoint and watches the registry directory for DRA drivers. @throws Error if either fails */
  async start(): Promise<void> {
    const { registryDir, file, clock, log } = this.#options;
    for (const claim of (await readCheckpoint<readonly Prepared[]>(file)) ?? []) this.#claims.set(claim.uid, claim);
    // gRPC is loaded only where DRA drivers are configured
    const [{ PluginWatcher }, { DRAPlugin: DriverClient }] = await Promise.all([
      import('@oarlock/grpc/plugin-watcher'),
      import('./dra-plugin.ts'),
    ]);
    const watcher = new PluginWatcher({
      directory: registryDir,
      type: 'DRAPlugin',
      clock,
      log,
      register: async (plugin) => {
        const driver = new DriverClient(plugin);
        this.#drivers.get(plugin.name)?.close();
        this.#drivers.set(plugin.name, driver);
      },
      deregister: async ({ name, endpoint }) => {
        // another instance of the driver may have taken its place
        if (this.#drivers.get(name)?.endpoint !== endpoint) return;
        this.#drivers.get(name)?.close();
        this.#drivers.delete(name);
      },
    });
    this.#pluginWatcher = watcher;
    await watcher.start();
  }

  async stop(): Promise<void> {
    await this.#pluginWatcher?.stop();
    for (const driver of this.#drivers.values()) driver.close();
    await this.#saving;
  }

  /** Prepares the pod's allocated ResourceClaims. Idempotent. @throws Error if a ResourceClaim or DRA driver is not ready */
  async prepareResources(pod: Pod, signal: AbortSignal): Promise<void> {
    const extended = pod.status?.extendedResourceClaimStatus;
    for (const name of [...claimNames(pod).values(), ...(extended ? [extended.resourceClaimName] : [])])
      await this.#prepare(await this.#claimOf(pod, name), podUid(pod), signal);
  }

  /** Returns the CDI names of a container's devices. Requires an earlier `prepareResources`. */
  cdiDevicesOf(pod: Pod, container: Container | EphemeralContainer): readonly string[] {
    const uid = podUid(pod);
    const names = claimNames(pod);
    const ids = new Set<string>();
    const { resourceClaimName, requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
    const wanted = [
      ...(container.resources?.claims ?? []).map(({ name, request }) => ({ claim: names.get(name), request })),
      // extended resources that a DeviceClass backs (KEP-5004)
      ...requestMappings
        .filter(({ containerName }) => containerName === container.name)
        .map(({ requestName }) => ({ claim: resourceClaimName, request: requestName })),
    ];
    for (const { claim: claimName, request } of wanted) {
      const claim = [...this.#claims.values()].find((one) => one.name === claimName && one.pods.includes(uid));
      for (const device of Object.values(claim?.devices ?? {}).flat())
        if (request === undefined || request === '' || satisfiesRequest(device, request))
          for (const id of device.cdiDeviceIds ?? []) ids.add(id);
    }
    return [...ids];
  }

  /**
   * Unprepares the ResourceClaims of pods that no longer exist. After a driver error, the driver is called again when another pod of the
   * ResourceClaim terminates.
   */
  async removeStalePods(present: (uid: string) => boolean, signal: AbortSignal): Promise<void> {
    const gone = new Set([...this.#claims.values()].flatMap(({ pods }) => pods).filter((uid) => !present(uid)));
    for (const uid of gone)
      await this.unprepareResources(uid, signal).catch((error: unknown) => {
        if (!signal.aborted) this.#options.log.warn({ err: error, pod: uid }, 'unpreparing a claim failed');
      });
  }

  /** Unprepares the ResourceClaims that only this pod used. Idempotent. @throws Error if a DRA driver fails */
  async unprepareResources(uid: string, signal: AbortSignal): Promise<void> {
    for (const claim of [...this.#claims.values()].filter(({ pods }) => pods.includes(uid)))
      await this.#locks.run(claim.uid, async () => {
        const now = this.#claims.get(claim.uid);
        if (!now?.pods.includes(uid)) return;
        const pods = now.pods.filter((one) => one !== uid);
        if (pods.length === 0) {
          for (const driver of Object.keys(now.devices)) await this.#driver(driver).unprepareClaim(nameOf(now), signal);
          this.#claims.delete(now.uid);
        } else this.#claims.set(now.uid, { ...now, pods });
        await this.#save();
      });
  }

  async #claimOf(pod: Pod, name: string): Promise<ResourceClaim> {
    const { namespace = '', name: podName = '', uid = '' } = pod.metadata ?? {};
    const claim = await this.#options.client.get<ResourceClaim>(resourceClaims, { namespace, name }).catch((cause: unknown) => {
      if (isStatus(cause, 'NotFound')) throw new Error(`failed to fetch ResourceClaim ${name} referenced by pod ${podName}: not found`);
      throw cause;
    });
    if (claim.status?.reservedFor?.some((one) => one.uid === uid) !== true)
      throw new Error(`pod ${podName} (${uid}) is not allowed to use ResourceClaim ${name} (${claim.metadata?.uid ?? ''})`);
    if (!claim.status.allocation) throw new Error(`ResourceClaim ${name} is not allocated`);
    return claim;
  }

  #prepare(claim: ResourceClaim, pod: string, signal: AbortSignal): Promise<void> {
    const { namespace = '', name = '', uid = '' } = claim.metadata ?? {};
    return this.#locks.run(uid, async () => {
      const drivers = new Set(claim.status?.allocation?.devices?.results?.map(({ driver }) => driver) ?? []);
      const before = this.#claims.get(uid);
      if (before?.pods.includes(pod) && [...drivers].every((driver) => before.devices[driver]?.length)) return;
      const asked: Prepared = {
        namespace,
        name,
        uid,
        pods: [...new Set([...(before?.pods ?? []), pod])],
        devices: { ...Object.fromEntries([...drivers].map((driver) => [driver, []])), ...before?.devices },
      };
      this.#claims.set(uid, asked);
      await this.#save();
      const devices: Record<string, readonly PreparedDevice[]> = {};
      for (const driver of drivers) devices[driver] = await this.#driver(driver).prepareClaim({ namespace, name, uid }, signal);
      this.#claims.set(uid, { ...asked, devices });
      await this.#save();
    });
  }

  #driver(name: string): DRAPlugin {
    const driver = this.#drivers.get(name);
    if (!driver) throw new Error(`DRA driver ${name} is not registered`);
    return driver;
  }

  /** Writes the checkpoint. Writes do not overlap; the newest state wins. @throws Error if the write fails */
  #save(): Promise<void> {
    const { file } = this.#options;
    const saved = this.#saving.then(async () => {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeCheckpoint(file, [...this.#claims.values()]);
    });
    this.#saving = saved.catch(() => undefined); // the caller already receives the rejection
    return saved;
  }
}

const nameOf = ({ namespace, name, uid }: Prepared): ClaimReference => ({ namespace, name, uid });

/** Returns true if the container's request names the device's request. A request `gpu` also matches its alternative `gpu/big`. */
const satisfiesRequest = ({ requestNames = [] }: PreparedDevice, request: string) =>
  requestNames.length === 0 || requestNames.some((one) => one === request || one.startsWith(`${request}/`));

/** Returns the names of the pod's ResourceClaims, keyed by the names that containers use. Omits entries whose ResourceClaim is not generated yet. */
function claimNames({ spec, status }: Pod): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { name, resourceClaimName } of spec?.resourceClaims ?? []) {
    const generated = status?.resourceClaimStatuses?.find((one) => one.name === name);
    if (resourceClaimName === undefined && !generated) throw new Error(`the ResourceClaim of ${name} has not been generated yet`);
    const found = resourceClaimName ?? generated?.resourceClaimName;
    if (found !== undefined) names.set(name, found);
  }
  return names;
}
