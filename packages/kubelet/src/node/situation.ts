import { Amount, parseQuantity } from '@oarlock/api/quantity';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { Image } from '@oarlock/spi/runtime';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { RuntimeHub } from '../runtime-hub.ts';
import { noPressure, readPressure, type MachineFacts } from './machine.ts';
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
}

/** Images are listed again after a pull, and this often anyway. Milliseconds. */
const imagesEveryMs = 300_000;
/** What a simulated node has, unless the config says otherwise. */
const simulatedCapacity = { cpu: '32', memory: '256Gi', 'ephemeral-storage': '1Ti' } as const;

/** How the machine and its runtime are: what all nodes of the process report. */
export class Situation {
  readonly #options: SituationOptions;
  #current: NodeSituation;
  #images: readonly Image[] = [];
  #imagesDue = 0;
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
    this.#networkDone = network === undefined;
    this.#current = {
      machine,
      capacity,
      allocatable: allocatableOf(capacity, config.reserved, { memory: memoryAvailable, disk: diskAvailable }),
      addresses: options.addresses,
      port: options.port,
      kubeletVersion: options.kubeletVersion,
      runtimeVersion: '',
      images: [],
      pressure: noPressure,
      problems: ['container runtime is not known yet'],
      networkReady: false,
      networkProblem: 'the network is not set up yet',
    };
  }

  get current(): NodeSituation {
    return this.#current;
  }

  networkDone(): void {
    this.#networkDone = true;
  }
  imagesChanged(): void {
    this.#imagesDue = 0;
  }

  /** Looks at everything again. */
  async refresh(): Promise<void> {
    const { hub, config, rootDir, clock, signal, log } = this.#options;
    const [{ problems, networkProblem }, pressure] = await Promise.all([
      this.#problems(),
      hub.simulated ? noPressure : readPressure(rootDir, config.evictionHard),
    ]);
    if (!hub.simulated && clock.now() >= this.#imagesDue) {
      this.#imagesDue = clock.now() + imagesEveryMs;
      try {
        this.#images = await hub.driver.listImages({ signal });
      } catch (error) {
        log.debug({ err: error }, 'the images could not be listed');
      }
    }
    this.#current = {
      ...this.#current,
      runtimeVersion: `${hub.name}://${hub.version}`,
      images: this.#images,
      pressure,
      problems,
      networkReady: networkProblem === undefined,
      networkProblem: networkProblem ?? '',
    };
  }

  async #problems(): Promise<{ readonly problems: readonly string[]; readonly networkProblem: string | undefined }> {
    const { hub, network, signal } = this.#options;
    const problems: string[] = [];
    let networkProblem: string | undefined;
    try {
      for (const { type, status, reason, message } of await hub.driver.status({ signal })) {
        if (status) continue;
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
