import { RuntimeError, type ContainerFilter, type SandboxFilter } from '@oarlock/spi/runtime';
import type { SimulatedContainer, SimulatedSandbox } from './simulated-pod.ts';

type Strings = Readonly<Record<string, string>>;

const uidLabel = 'io.kubernetes.pod.uid';

/** Indexes sandboxes and containers by id and by pod, because most list calls filter by pod. */
export class PodTable {
  readonly #sandboxes = new Map<string, SimulatedSandbox>();
  readonly #containers = new Map<string, SimulatedContainer>();
  readonly #byPod = new Map<string, Set<SimulatedSandbox>>();

  addSandbox(sandbox: SimulatedSandbox): void {
    this.#sandboxes.set(sandbox.id, sandbox);
    const { uid } = sandbox.metadata;
    const pod = this.#byPod.get(uid);
    if (pod) pod.add(sandbox);
    else this.#byPod.set(uid, new Set([sandbox]));
  }

  addContainer(container: SimulatedContainer): void {
    container.sandbox.containers.add(container);
    this.#containers.set(container.id, container);
  }

  removeSandbox(sandbox: SimulatedSandbox): void {
    this.#sandboxes.delete(sandbox.id);
    const pod = this.#byPod.get(sandbox.metadata.uid);
    pod?.delete(sandbox);
    if (pod?.size === 0) this.#byPod.delete(sandbox.metadata.uid);
  }

  removeContainer(container: SimulatedContainer): void {
    container.sandbox.containers.delete(container);
    this.#containers.delete(container.id);
  }

  findSandbox(id: string): SimulatedSandbox | undefined {
    return this.#sandboxes.get(id);
  }
  findContainer(id: string): SimulatedContainer | undefined {
    return this.#containers.get(id);
  }

  /** Returns a sandbox. @throws RuntimeError `NotFound` if the sandbox does not exist */
  sandbox(id: string): SimulatedSandbox {
    const sandbox = this.#sandboxes.get(id);
    if (!sandbox) throw new RuntimeError('NotFound', `sandbox ${id} not found`);
    return sandbox;
  }

  /** Returns a container. @throws RuntimeError `NotFound` if the container does not exist */
  container(id: string): SimulatedContainer {
    const container = this.#containers.get(id);
    if (!container) throw new RuntimeError('NotFound', `container ${id} not found`);
    return container;
  }

  /** Returns a running container. @throws RuntimeError `NotFound` if it does not exist, `FailedPrecondition` if it does not run */
  running(id: string): SimulatedContainer {
    const container = this.container(id);
    if (container.state !== 'RUNNING') throw new RuntimeError('FailedPrecondition', `container ${id} is not running`);
    return container;
  }

  ofPod(uid: string): Iterable<SimulatedSandbox> {
    return this.#byPod.get(uid) ?? [];
  }

  *sandboxes({ id, state, labels }: SandboxFilter): Generator<SimulatedSandbox> {
    for (const sandbox of this.#candidates(id, labels)) {
      if ((state === undefined || sandbox.state === state) && matches(sandbox.labels, labels)) yield sandbox;
    }
  }

  *containers({ id, sandboxId, state, labels }: ContainerFilter): Generator<SimulatedContainer> {
    const container = id === undefined ? undefined : this.#containers.get(id);
    const sandboxes = id === undefined ? this.#candidates(sandboxId, labels) : container ? [container.sandbox] : [];
    for (const sandbox of sandboxes) {
      if (sandboxId !== undefined && sandbox.id !== sandboxId) continue;
      for (const candidate of sandbox.containers) {
        if (container !== undefined && candidate !== container) continue;
        if ((state === undefined || candidate.state === state) && matches(candidate.labels, labels)) yield candidate;
      }
    }
  }

  #candidates(id: string | undefined, labels: Strings | undefined): Iterable<SimulatedSandbox> {
    if (id !== undefined) {
      const sandbox = this.#sandboxes.get(id);
      return sandbox ? [sandbox] : [];
    }
    const uid = labels?.[uidLabel];
    return uid === undefined ? this.#sandboxes.values() : this.ofPod(uid);
  }
}

function matches(labels: Strings, selector: Strings | undefined): boolean {
  for (const key in selector) if (labels[key] !== selector[key]) return false;
  return true;
}
