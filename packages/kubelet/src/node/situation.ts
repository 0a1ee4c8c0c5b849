import { jsonEqual } from '@oarlock/api/json';
import { Amount, parseQuantity } from '@oarlock/api/quantity';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { Image } from '@oarlock/spi/runtime';
import type { DeviceManager } from '../devices/device-manager.ts';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { RuntimeHub } from '../runtime-hub.ts';
import type { MachineFacts } from './machine.ts';
import { observe, type Observations } from './observations.ts';
import { noPressure, Thresholds, type Shortage } from './thresholds.ts';
import type { NodeSituation } from './node-agent.ts';
import { allocatableOf } from './node-status.ts';

export interface SituationOptions {
  readonly config: KubeletConfig;
  readonly kubeletVersion: string;
  readonly machine: MachineFacts;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly rootDir: string;
  /** The runtime that pods get by default. */
  readonly hub: RuntimeHub;
  readonly network: NetworkDriver | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly devices?: Pick<DeviceManager, 'amounts'> | undefined;
  /** What is left of memory, disk and process ids; by default of this machine. */
  readonly observe?: ((rootDir: string, imageDir: string | undefined) => Promise<Observations>) | undefined;
}

const goingDown = 'node is shutting down';
/** Images are listed again after a pull, and this often anyway. Milliseconds. */
const imagesEveryMs = 300_000;
/** A runtime that has not answered for so long is down, as upstream has it. Milliseconds. */
const runtimePatienceMs = 30_000;
/** What a simulated node has, unless the config says otherwise. */
const simulatedCapacity = { cpu: '32', memory: '256Gi', 'ephemeral-storage': '1Ti' } as const;

/** How the machine and its runtime are: what all nodes of the process report. */
export class Situation {
  readonly #options: SituationOptions;
  #current: NodeSituation;
  #images: readonly Image[] = [];
  #imagesDue = 0;
  /** Where the runtime keeps images, once it has told. */
  #imageDir: string | undefined;
  readonly #thresholds: Thresholds;
  /** Set up by this process; true where there is nothing to set up. */
  #networkDone: boolean;

  constructor(options: SituationOptions) {
    this.#options = options;
    const { config, machine, hub, network } = options;
    const said = { ...(hub.simulated ? simulatedCapacity : {}), ...config.capacity };
    const capacity = {
      ...machine.capacity,
      ...Object.fromEntries(Object.entries(said).map(([name, quantity]) => [name, parseQuantity(quantity)])),
      pods: Amount.of(config.maxPods),
    };
    const { memoryAvailable, diskAvailable } = hub.simulated ? { memoryAvailable: '0', diskAvailable: '0' } : config.evictionHard;
    this.#thresholds = new Thresholds(config);
    this.#networkDone = network === undefined;
    this.#current = {
      machine,
      capacity,
      allocatable: allocatableOf(capacity, config.reserved, { memory: memoryAvailable, disk: diskAvailable }),
      addresses: options.addresses,
      port: options.port,
      kubeletVersion: options.kubeletVersion,
      runtimeVersion: '',
      features: undefined,
      images: [],
      pressure: noPressure,
      problems: ['container runtime is not known yet'],
      networkReady: false,
      goingDown: false,
      networkProblem: 'the network is not set up yet',
    };
  }

  get current(): NodeSituation {
    return this.#current;
  }

  /** What the machine was short of at the last look. */
  get shortages(): readonly Shortage[] {
    return this.#thresholds.shortages;
  }

  /** The machine is on its way down, or is not after all. */
  goesDown(is: boolean): void {
    const others = this.#current.problems.filter((problem) => problem !== goingDown);
    this.#current = { ...this.#current, goingDown: is, problems: is ? [...others, goingDown] : others };
  }

  /** Plugins have told of other devices. */
  devicesChanged(): void {
    const { devices } = this.#options;
    if (!devices) return;
    const { capacity, allocatable } = devices.amounts;
    this.#current = {
      ...this.#current,
      capacity: { ...this.#current.capacity, ...capacity },
      allocatable: { ...this.#current.allocatable, ...allocatable },
    };
  }

  networkDone(): void {
    this.#networkDone = true;
  }
  imagesChanged(): void {
    this.#imagesDue = 0;
  }

  /** Looks at everything again. */
  async refresh(): Promise<void> {
    const { hub, clock, log } = this.#options;
    const { problems, networkProblem } = await this.#problems();
    await this.look();
    if (!hub.simulated && clock.monotonic() >= this.#imagesDue) {
      this.#imagesDue = clock.monotonic() + imagesEveryMs;
      try {
        this.#images = await this.#answered((call) => hub.driver.listImages(call));
      } catch (error) {
        log.debug({ err: error }, 'the images could not be listed');
      }
    }
    this.#becomes({
      runtimeVersion: `${hub.name}://${hub.version}`,
      features: hub.features,
      images: this.#images,
      problems: this.#current.goingDown ? [...problems, goingDown] : problems,
      networkReady: networkProblem === undefined,
      networkProblem: networkProblem ?? '',
    });
  }

  /** Looks at what is left of the machine. Returns what it is short of, the most urgent first. */
  async look(): Promise<readonly Shortage[]> {
    const { hub, rootDir, clock, observe: measure } = this.#options;
    // the machine is not what simulated nodes have
    if (hub.simulated && !measure) return [];
    const pressure = this.#thresholds.look(await (measure ?? observe)(rootDir, await this.#imagesAt()), clock.monotonic());
    this.#becomes({ pressure });
    return this.#thresholds.shortages;
  }

  /** What stays as it was stays the same object: nodes that see it again have nothing to report. */
  #becomes(seen: Partial<NodeSituation>): void {
    const next = { ...this.#current, ...seen };
    const differs = (name: keyof NodeSituation) =>
      next[name] !== this.#current[name] && (name === 'images' || !jsonEqual(next[name], this.#current[name]));
    if ((Object.keys(seen) as (keyof NodeSituation)[]).some(differs)) this.#current = next;
  }

  async #imagesAt(): Promise<string | undefined> {
    const { hub, log } = this.#options;
    if (!hub.driver.traits.images || hub.simulated) return undefined;
    try {
      this.#imageDir ??= (await this.#answered((call) => hub.driver.imageFsInfo(call))).mountpoint || undefined;
    } catch (error) {
      log.debug({ err: error }, 'the runtime does not say where it keeps images');
    }
    return this.#imageDir;
  }

  /** @throws Error when the runtime takes too long to answer */
  async #answered<T>(ask: (call: { readonly signal: AbortSignal }) => Promise<T>): Promise<T> {
    const { clock, signal } = this.#options;
    const late = new AbortController();
    const timer = clock.after(runtimePatienceMs, () => late.abort(new Error(`it has not answered for ${runtimePatienceMs / 1000} s`)));
    try {
      return await ask({ signal: AbortSignal.any([signal, late.signal]) });
    } finally {
      timer.cancel();
    }
  }

  async #problems(): Promise<{ readonly problems: readonly string[]; readonly networkProblem: string | undefined }> {
    const { hub, network, signal } = this.#options;
    const problems: string[] = [];
    let networkProblem: string | undefined;
    try {
      for (const { type, status, reason, message } of await this.#answered((call) => hub.driver.status(call))) {
        // pods that share the node's network are connected by nobody: a runtime that found no conflist lacks nothing
        if (status || (type === 'NetworkReady' && network?.traits.namespace === 'node')) continue;
        const text = `${type === 'NetworkReady' ? 'container runtime network not ready' : 'container runtime not ready'}: ${type}=false reason:${reason} message:${message}`;
        problems.push(text);
        if (type === 'NetworkReady') networkProblem = text;
      }
      if (!this.#networkDone)
        networkProblem ??=
          'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:the network is not set up yet';
      else if (network) {
        const { ready, message } = await network.status({ signal });
        if (!ready)
          networkProblem ??= `container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:${message}`;
      }
      if (networkProblem !== undefined && !problems.includes(networkProblem)) problems.push(networkProblem);
    } catch (error) {
      signal.throwIfAborted();
      // pods wait until it is back, rather than fail one by one
      networkProblem = `container runtime is down: ${error instanceof Error ? error.message : String(error)}`;
      problems.push(networkProblem);
    }
    return { problems, networkProblem };
  }
}
