import { jsonEqual } from '@oarlock/api/json/json';
import { ParsedQuantity, parseQuantity } from '@oarlock/api/values/quantity';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { NetworkPolicies } from '@oarlock/spi/policy';
import type { Image } from '@oarlock/spi/runtime';
import type { DeviceManager } from '../container-manager/devices/device-manager.ts';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { PLEG } from '../runtime/pleg.ts';
import type { MachineFacts } from './machine.ts';
import { observeSignals, type SignalObservations } from '../eviction/signal-observations.ts';
import { EvictionThresholds, type MetThreshold } from '../eviction/thresholds.ts';
import { noPressure } from '../pod-util/node-pressure.ts';
import type { NodeState } from './node-agent.ts';
import { imageSupportOf } from '../runtime/image-support.ts';
import { unenforcedSettings } from '../runtime/unenforced-settings.ts';
import { allocatableOf } from './internal/node-status.ts';

export interface NodeStateManagerOptions {
  readonly config: KubeletConfig;
  readonly kubeletVersion: string;
  readonly machine: MachineFacts;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly rootDir: string;
  /** The PLEG of the default runtime, which runs pods without a RuntimeClass. */
  readonly pleg: PLEG;
  /** The PLEGs of all runtimes. */
  readonly plegs: readonly PLEG[];
  readonly network: NetworkDriver | undefined;
  readonly policy?: Pick<NetworkPolicies, 'checkHealth'> | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly devices?: Pick<DeviceManager, 'resources'> | undefined;
  /** Observes eviction signals; by default the eviction signals of this machine. */
  readonly observe?: ((rootDir: string, imageDir: string | undefined) => Promise<SignalObservations>) | undefined;
}

const shutdownProblem = 'node is shutting down';
/** The period between lists of images, unless a pull changes them. Milliseconds. */
const imageListPeriodMs = 300_000;
/** A runtime that has not answered for this long is considered down, as upstream. Milliseconds. */
const runtimeTimeoutMs = 30_000;
/** The capacity of a simulated node, unless the configuration sets one. */
const simulatedCapacity = { cpu: '32', memory: '256Gi', 'ephemeral-storage': '1Ti' } as const;

/** Maintains the state of the machine and its runtime, which all nodes of the process report. */
export class NodeStateManager {
  readonly #options: NodeStateManagerOptions;
  #current: NodeState;
  #images: readonly Image[] = [];
  #imagesDue = 0;
  /** The image directory of the runtime; undefined until the runtime reports it. */
  #imageDir: string | undefined;
  readonly #thresholds: EvictionThresholds;
  /** True once this process has configured the network plugin, or if there is no network plugin. */
  #networkIsConfigured: boolean;

  constructor(options: NodeStateManagerOptions) {
    this.#options = options;
    const { config, machine, pleg, network } = options;
    const overrides = { ...(pleg.simulated ? simulatedCapacity : {}), ...config.capacity };
    const capacity = {
      ...machine.capacity,
      ...Object.fromEntries(Object.entries(overrides).map(([name, quantity]) => [name, parseQuantity(quantity)])),
      pods: ParsedQuantity.of(config.maxPods),
    };
    const { memoryAvailable, diskAvailable } = pleg.simulated ? { memoryAvailable: '0', diskAvailable: '0' } : config.evictionHard;
    this.#thresholds = new EvictionThresholds(config);
    this.#networkIsConfigured = network === undefined;
    this.#current = {
      machine,
      capacity,
      allocatable: allocatableOf(capacity, config.reserved, { memory: memoryAvailable, disk: diskAvailable }),
      addresses: options.addresses,
      port: options.port,
      kubeletVersion: options.kubeletVersion,
      runtimeVersion: '',
      features: undefined,
      isolation: undefined,
      unenforced: undefined,
      imageSupport: undefined,
      images: [],
      pressure: noPressure,
      problems: ['container runtime is not known yet'],
      networkReady: false,
      shuttingDown: false,
      networkNotReadyMessage: 'the network is not set up yet',
    };
  }

  get current(): NodeState {
    return this.#current;
  }

  /** The eviction thresholds that were met at the last check. */
  get metThresholds(): readonly MetThreshold[] {
    return this.#thresholds.metThresholds;
  }

  /** Sets whether the machine is shutting down. */
  setShuttingDown(is: boolean): void {
    const others = this.#current.problems.filter((problem) => problem !== shutdownProblem);
    this.#current = { ...this.#current, shuttingDown: is, problems: is ? [...others, shutdownProblem] : others };
  }

  /** Updates the node's capacity and allocatable from the device plugins. */
  devicesChanged(): void {
    const { devices } = this.#options;
    if (!devices) return;
    const { capacity, allocatable } = devices.resources;
    this.#current = {
      ...this.#current,
      capacity: { ...this.#current.capacity, ...capacity },
      allocatable: { ...this.#current.allocatable, ...allocatable },
    };
  }

  networkConfigured(): void {
    this.#networkIsConfigured = true;
  }
  imagesChanged(): void {
    this.#imagesDue = 0;
  }

  /** Collects all inputs of the node status again. */
  async refresh(): Promise<void> {
    const { pleg, plegs, clock, log } = this.#options;
    const { problems, networkProblem } = await this.#collectProblems();
    await this.checkThresholds();
    if (!pleg.simulated && clock.monotonic() >= this.#imagesDue) {
      this.#imagesDue = clock.monotonic() + imageListPeriodMs;
      try {
        this.#images = (await this.#withTimeout((call) => Promise.all(plegs.map(({ driver }) => driver.listImages(call))))).flat();
      } catch (error) {
        log.debug({ err: error }, 'listing images failed');
      }
    }
    this.#update({
      runtimeVersion: `${pleg.name}://${pleg.version}`,
      features: pleg.features,
      isolation: pleg.isolation,
      unenforced: unenforcedSettings(plegs),
      imageSupport: imageSupportOf(plegs),
      images: this.#images,
      problems: this.#current.shuttingDown ? [...problems, shutdownProblem] : problems,
      networkReady: networkProblem === undefined,
      networkNotReadyMessage: networkProblem ?? '',
    });
  }

  /** Observes the eviction signals and returns the eviction thresholds that are met, most urgent first. */
  async checkThresholds(): Promise<readonly MetThreshold[]> {
    const { pleg, rootDir, clock, observe } = this.#options;
    // simulated nodes do not share the machine's pressure
    if (pleg.simulated && !observe) return [];
    const pressure = this.#thresholds.update(
      await (observe ?? observeSignals)(rootDir, await this.#imageFsMountpoint()),
      clock.monotonic(),
    );
    this.#update({ pressure });
    return this.#thresholds.metThresholds;
  }

  /** Updates the state. The state object changes only if a value changed, so that nodes can compare by identity. */
  #update(seen: Partial<NodeState>): void {
    const next = { ...this.#current, ...seen };
    const differs = (name: keyof NodeState) =>
      next[name] !== this.#current[name] && (name === 'images' || !jsonEqual(next[name], this.#current[name]));
    if ((Object.keys(seen) as (keyof NodeState)[]).some(differs)) this.#current = next;
  }

  async #imageFsMountpoint(): Promise<string | undefined> {
    const { pleg, log } = this.#options;
    if (!pleg.driver.traits.images || pleg.simulated) return undefined;
    try {
      this.#imageDir ??= (await this.#withTimeout((call) => pleg.driver.imageFsInfo(call))).mountpoint || undefined;
    } catch (error) {
      log.debug({ err: error }, 'reading the image file system of the runtime failed');
    }
    return this.#imageDir;
  }

  /** Sends a request to the runtime. @throws Error if the runtime does not answer within the timeout */
  async #withTimeout<T>(request: (call: { readonly signal: AbortSignal }) => Promise<T>): Promise<T> {
    const { clock, signal } = this.#options;
    const late = new AbortController();
    const timer = clock.after(runtimeTimeoutMs, () => late.abort(new Error(`it has not answered for ${runtimeTimeoutMs / 1000} s`)));
    try {
      return await request({ signal: AbortSignal.any([signal, late.signal]) });
    } finally {
      timer.cancel();
    }
  }

  async #collectProblems(): Promise<{ readonly problems: readonly string[]; readonly networkProblem: string | undefined }> {
    const { pleg, network, policy, signal } = this.#options;
    const problems: string[] = [];
    let networkProblem: string | undefined;
    try {
      for (const { type, status, reason, message } of await this.#withTimeout((call) => pleg.driver.status(call))) {
        // with a plugin for the node's namespace the runtime needs no CNI config
        if (status || (type === 'NetworkReady' && network?.traits.namespace === 'node')) continue;
        const text = `${type === 'NetworkReady' ? 'container runtime network not ready' : 'container runtime not ready'}: ${type}=false reason:${reason} message:${message}`;
        problems.push(text);
        if (type === 'NetworkReady') networkProblem = text;
      }
      if (!this.#networkIsConfigured)
        networkProblem ??=
          'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:the network is not set up yet';
      else if (network) {
        const { ready, message } = await network.status({ signal });
        if (!ready)
          networkProblem ??= `container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:${message}`;
      }
      const policyHealth = policy?.checkHealth?.();
      if (policyHealth?.healthy === false)
        networkProblem ??= `container runtime network not ready: NetworkReady=false reason:NetworkPolicyNotReady message:${policyHealth.reason}`;
      if (networkProblem !== undefined && !problems.includes(networkProblem)) problems.push(networkProblem);
    } catch (error) {
      signal.throwIfAborted();
      // pods wait for the runtime instead of failing one by one
      networkProblem = `container runtime is down: ${errorText(error)}`;
      problems.push(networkProblem);
    }
    return { problems, networkProblem };
  }
}
