import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import { KeyedLock } from '@oarlock/kernel/keyed-lock';
import { podUid } from '../pods.ts';
import type { ClaimDriver } from './claim-driver.ts';
import type { ClaimName, PreparedDevice } from './claim-messages.ts';

export interface ResourceClaimsOptions {
  /** Where drivers put the sockets with which they register, as upstream's /var/lib/kubelet/plugins_registry. */
  readonly registryDir: string;
  /** Remembers what was prepared. */
  readonly file: string;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** One claim that some pod of this node uses. Written down before a driver is asked. */
interface Prepared extends ClaimName {
  /** Uids of the pods that use it here. */
  readonly pods: readonly string[];
  /** By driver; a driver is there before it has been asked. */
  readonly devices: Readonly<Record<string, readonly PreparedDevice[]>>;
}

/**
 * Claims of pods on devices that drivers of this node hand out (KEP-4381): a driver prepares what the scheduler has allocated before the
 * pod begins, containers get what it names, and it is told when the last pod of the claim has ended.
 */
export class ResourceClaims {
  readonly #options: ResourceClaimsOptions;
  readonly #drivers = new Map<string, ClaimDriver>();
  /** By uid of the claim. */
  readonly #claims = new Map<string, Prepared>();
  readonly #locks = new KeyedLock();
  #sockets: { stop(): Promise<void> } | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: ResourceClaimsOptions) {
    this.#options = options;
  }

  /** Reads what was prepared before, and listens for drivers. @throws Error when it cannot */
  async start(): Promise<void> {
    const { registryDir, file, clock, log } = this.#options;
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text !== undefined) for (const claim of JSON.parse(text) as readonly Prepared[]) this.#claims.set(claim.uid, claim);
    // gRPC is loaded where there may be drivers, and nowhere else
    const [{ PluginSockets }, { ClaimDriver: Driver }] = await Promise.all([
      import('@oarlock/grpc/plugin-sockets'),
      import('./claim-driver.ts'),
    ]);
    const sockets = new PluginSockets({
      directory: registryDir,
      type: 'DRAPlugin',
      clock,
      log,
      register: async (plugin) => {
        const driver = new Driver(plugin);
        this.#drivers.get(plugin.name)?.close();
        this.#drivers.set(plugin.name, driver);
      },
      deregister: async ({ name }) => {
        this.#drivers.get(name)?.close();
        this.#drivers.delete(name);
      },
    });
    this.#sockets = sockets;
    await sockets.start();
  }

  async stop(): Promise<void> {
    await this.#sockets?.stop();
    for (const driver of this.#drivers.values()) driver.close();
    await this.#saving;
  }

  /** Makes ready what the pod has been allocated. May be called again. @throws Error that says what is missing */
  async prepare(pod: Pod, signal: AbortSignal): Promise<void> {
    const extended = pod.status?.extendedResourceClaimStatus;
    for (const name of [...claimNames(pod).values(), ...(extended ? [extended.resourceClaimName] : [])])
      await this.#prepare(await this.#claimOf(pod, name), podUid(pod), signal);
  }

  /** The CDI names of what a container asks for. To be called when its pod is prepared. */
  devicesOf(pod: Pod, container: Container | EphemeralContainer): readonly string[] {
    const uid = podUid(pod);
    const names = claimNames(pod);
    const ids = new Set<string>();
    const { resourceClaimName, requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
    const wanted = [
      ...(container.resources?.claims ?? []).map(({ name, request }) => ({ claim: names.get(name), request })),
      // its extended resources, as far as a class of devices stands for them (KEP-5004)
      ...requestMappings
        .filter(({ containerName }) => containerName === container.name)
        .map(({ requestName }) => ({ claim: resourceClaimName, request: requestName })),
    ];
    for (const { claim: claimName, request } of wanted) {
      const claim = [...this.#claims.values()].find((one) => one.name === claimName && one.pods.includes(uid));
      for (const device of Object.values(claim?.devices ?? {}).flat())
        if (request === undefined || request === '' || asks(device, request)) for (const id of device.cdiDeviceIds ?? []) ids.add(id);
    }
    return [...ids];
  }

  /** Gives back what pods held that are not there any more. A driver that cannot take it back now is asked when another pod of the claim ends. */
  async keep(present: (uid: string) => boolean, signal: AbortSignal): Promise<void> {
    const gone = new Set([...this.#claims.values()].flatMap(({ pods }) => pods).filter((uid) => !present(uid)));
    for (const uid of gone)
      await this.release(uid, signal).catch((error: unknown) => {
        if (!signal.aborted) this.#options.log.warn({ err: error, pod: uid }, 'a claim could not be given back');
      });
  }

  /** The pod has ended: what it alone used is given back. May be called again. @throws Error when a driver cannot take it back now */
  async release(uid: string, signal: AbortSignal): Promise<void> {
    for (const claim of [...this.#claims.values()].filter(({ pods }) => pods.includes(uid)))
      await this.#locks.run(claim.uid, async () => {
        const now = this.#claims.get(claim.uid);
        if (!now?.pods.includes(uid)) return;
        const pods = now.pods.filter((one) => one !== uid);
        if (pods.length === 0) {
          for (const driver of Object.keys(now.devices)) await this.#driver(driver).unprepare(nameOf(now), signal);
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
      for (const driver of drivers) devices[driver] = await this.#driver(driver).prepare({ namespace, name, uid }, signal);
      this.#claims.set(uid, { ...asked, devices });
      await this.#save();
    });
  }

  #driver(name: string): ClaimDriver {
    const driver = this.#drivers.get(name);
    if (!driver) throw new Error(`DRA driver ${name} is not registered`);
    return driver;
  }

  /** One write after the other; the last state wins. @throws Error when it cannot be written */
  #save(): Promise<void> {
    const { file } = this.#options;
    const text = () => JSON.stringify([...this.#claims.values()]);
    const saved = this.#saving.then(async () => {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(`${file}.new`, text(), { mode: 0o600 });
      await rename(`${file}.new`, file);
    });
    this.#saving = saved.catch(() => undefined); // told to who asked for it
    return saved;
  }
}

const nameOf = ({ namespace, name, uid }: Prepared): ClaimName => ({ namespace, name, uid });

/** `gpu` is asked for by `gpu`, and by `gpu/big`, one of its alternatives. */
const asks = ({ requestNames = [] }: PreparedDevice, request: string) =>
  requestNames.length === 0 || requestNames.some((one) => one === request || one.startsWith(`${request}/`));

/** Names of claims by the names that the pod's containers use; those that turned out to need none are left out. */
function claimNames({ spec, status }: Pod): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { name, resourceClaimName } of spec?.resourceClaims ?? []) {
    const made = status?.resourceClaimStatuses?.find((one) => one.name === name);
    if (resourceClaimName === undefined && !made) throw new Error(`the ResourceClaim of ${name} has not been made yet`);
    const found = resourceClaimName ?? made?.resourceClaimName;
    if (found !== undefined) names.set(name, found);
  }
  return names;
}
