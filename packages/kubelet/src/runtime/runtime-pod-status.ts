import type { ContainerStatus, PodSandboxStatus } from '@oarlock/spi/runtime';
import { runtimeLabels } from './labels.ts';

/** The sandboxes and containers of one pod, as the runtime last reported them. Lookups are linear, because the lists are short. */
export class RuntimePodStatus {
  /** The pod's sandboxes, newest attempt first. */
  #sandboxes: readonly PodSandboxStatus[] = [];
  /** The pod's containers. Among containers of the same name, the newest attempt is first. */
  #containers: readonly ContainerStatus[] = [];

  get sandboxes(): readonly PodSandboxStatus[] {
    return this.#sandboxes;
  }
  get containers(): readonly ContainerStatus[] {
    return this.#containers;
  }
  get isEmpty(): boolean {
    return this.#sandboxes.length === 0 && this.#containers.length === 0;
  }

  setSandbox(sandbox: PodSandboxStatus): void {
    this.#sandboxes = [...this.#sandboxes.filter(({ id }) => id !== sandbox.id), sandbox].sort(
      (a, b) => b.metadata.attempt - a.metadata.attempt || b.createdAt - a.createdAt,
    );
  }
  removeSandbox(id: string): void {
    this.#sandboxes = this.#sandboxes.filter((sandbox) => sandbox.id !== id);
  }

  setContainer(container: ContainerStatus): void {
    const others = this.#containers.filter(({ id }) => id !== container.id);
    this.#containers =
      others.length === 0
        ? [container]
        : [...others, container].sort((a, b) => b.metadata.attempt - a.metadata.attempt || b.createdAt - a.createdAt);
  }
  removeContainer(id: string): void {
    this.#containers = this.#containers.filter((container) => container.id !== id);
  }

  replace(sandboxes: readonly PodSandboxStatus[], containers: readonly ContainerStatus[]): void {
    this.#sandboxes = [];
    this.#containers = [];
    for (const sandbox of sandboxes) this.setSandbox(sandbox);
    for (const container of containers) this.setContainer(container);
  }

  container(id: string): ContainerStatus | undefined {
    return this.#containers.find((container) => container.id === id);
  }
  sandbox(id: string): PodSandboxStatus | undefined {
    return this.#sandboxes.find((sandbox) => sandbox.id === id);
  }
  /** Returns the newest attempt of a container in any state; undefined if there is none. */
  latestContainer(name: string): ContainerStatus | undefined {
    return this.#containers.find((container) => container.metadata.name === name);
  }
  /** Returns all attempts of a container, newest first. */
  containerAttempts(name: string): readonly ContainerStatus[] {
    return this.#containers.filter((container) => container.metadata.name === name);
  }
  get runningContainers(): readonly ContainerStatus[] {
    return this.#containers.filter(({ state }) => state === 'RUNNING');
  }
  get readySandbox(): PodSandboxStatus | undefined {
    return this.#sandboxes.find(({ state }) => state === 'READY');
  }

  /** The pod's addresses: those in the sandbox's annotation, or else those that the runtime reports. */
  get podIPs(): readonly string[] {
    const sandbox = this.readySandbox ?? this.#sandboxes[0];
    if (sandbox === undefined) return [];
    const noted = sandbox.annotations[runtimeLabels.podIPs];
    return noted === undefined ? sandbox.ips : noted.split(',');
  }
}
