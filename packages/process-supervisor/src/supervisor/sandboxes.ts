import { existsSync } from 'node:fs';
import type { PodSandboxConfig, RuntimeEvent } from '@oarlock/spi/runtime';
import type { Clock } from '@oarlock/primitives/clock';
import type { Containers } from '../containers/containers.ts';
import type { PodStore } from '../containers/pod-store.ts';
import type { NetworkNamespaces } from '../host/network-namespaces.ts';
import { bootId } from '../host/process-table.ts';
import { SupervisorError, type SandboxRecord } from '../protocol/supervisor-protocol.ts';

export interface NewSandbox {
  readonly id: string;
  readonly config: PodSandboxConfig;
  readonly ips: readonly string[];
  readonly netns?: string;
  readonly ready: boolean;
}

/** What the sandboxes of a supervisor share. */
export interface SandboxesOptions {
  readonly clock: Clock;
  readonly containers: Containers;
  readonly networkNamespaces: NetworkNamespaces;
  readonly emit: (event: RuntimeEvent) => void;
}

/** Manages the sandboxes of one supervisor. A sandbox has no process of its own: it is a name, an address and its containers. */
export class Sandboxes {
  readonly #store: PodStore;
  readonly #clock: Clock;
  readonly #containers: Containers;
  readonly #networkNamespaces: NetworkNamespaces;
  readonly #emitEvent: (event: RuntimeEvent) => void;
  readonly #records = new Map<string, SandboxRecord>();
  readonly #names = new Map<string, string>();

  constructor(store: PodStore, { clock, containers, networkNamespaces, emit }: SandboxesOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#containers = containers;
    this.#networkNamespaces = networkNamespaces;
    this.#emitEvent = emit;
  }

  /**
   * Adopts a sandbox record of an earlier supervisor. The sandbox is not ready if its network does not exist: after a reboot, and after the end of all
   * processes of a node without root, whose namespaces end with them.
   */
  adopt(record: SandboxRecord): void {
    const { boot, state, netns } = record;
    const isCurrent = boot === bootId() && (state === 'NOTREADY' || netns === undefined || existsSync(netns));
    const adopted: SandboxRecord = isCurrent ? record : { ...record, state: 'NOTREADY', boot: bootId() };
    this.#records.set(record.id, adopted);
    this.#names.set(nameOf(record.config), record.id);
    if (adopted !== record) this.#store.saveSandbox(adopted);
  }

  /** Returns a sandbox. @throws SupervisorError `NotFound` if the sandbox does not exist */
  get(id: string): SandboxRecord {
    const record = this.#records.get(id);
    if (!record) throw new SupervisorError('NotFound', `there is no sandbox ${id}`);
    return record;
  }
  list(): readonly SandboxRecord[] {
    return [...this.#records.values()];
  }

  /** Creates a sandbox, and its network namespace at the path `netns`. If the namespace cannot be created, the sandbox stays, not ready. */
  async create({ id, config, ips, netns, ready }: NewSandbox): Promise<SandboxRecord> {
    const name = nameOf(config);
    if (!/^[0-9a-f]{64}$/.test(id)) throw new SupervisorError('InvalidArgument', `not a sandbox id: ${JSON.stringify(id)}`);
    if (this.#records.has(id) || this.#names.has(name))
      throw new SupervisorError('AlreadyExists', `a sandbox of this name already exists: ${name}`);
    const { metadata, labels, annotations } = config;
    const record: SandboxRecord = {
      id,
      metadata,
      labels,
      annotations,
      state: ready ? 'READY' : 'NOTREADY',
      createdAt: this.#clock.now(),
      ips,
      config: this.#containers.withCgroupParent(id, config),
      boot: bootId(),
      ...(netns !== undefined && { netns }),
    };
    this.#store.saveSandbox(record);
    this.#records.set(id, record);
    this.#names.set(name, id);
    this.#emit('CREATED', id);
    this.#containers.sandboxCreated(record);
    if (netns !== undefined) await this.#networkNamespaces.create(netns);
    if (ready) this.#emit('STARTED', id);
    return record;
  }

  /** Marks a sandbox as ready, after its network was connected. */
  markReady(id: string, ips: readonly string[]): void {
    this.#save({ ...this.get(id), state: 'READY', ips });
    this.#emit('STARTED', id);
  }

  /** Stops the containers of a sandbox, with a grace period if `graceMs` is positive. Returns null if the sandbox does not exist. */
  async stop(id: string, graceMs: number): Promise<SandboxRecord | null> {
    const record = this.#records.get(id);
    if (!record) return null;
    if (record.state === 'READY') this.#save({ ...record, state: 'NOTREADY' }); // first, so that no container is started in it
    await Promise.all(this.#containers.list(id).map((container) => this.#containers.stop(container.id, graceMs)));
    await this.#containers.sandboxStopped(record);
    if (record.state === 'READY') this.#emit('STOPPED', id);
    return this.#records.get(id) ?? null;
  }

  async remove(id: string): Promise<void> {
    if (!this.#records.has(id)) return;
    await this.stop(id, 0);
    await Promise.all(this.#containers.list(id).map((container) => this.#containers.remove(container.id)));
    const record = this.#records.get(id);
    if (!record) return;
    this.#store.removeSandbox(id);
    this.#records.delete(id);
    this.#names.delete(nameOf(record.config));
    this.#emit('DELETED', id);
  }

  #save(record: SandboxRecord): void {
    this.#store.saveSandbox(record);
    this.#records.set(record.id, record);
  }
  #emit(type: RuntimeEvent['type'], sandboxId: string): void {
    this.#emitEvent({ type, sandboxId, at: this.#clock.now() });
  }
}

const nameOf = ({ metadata: { namespace, name, uid, attempt } }: PodSandboxConfig) => `${namespace}/${name}/${uid}/${attempt}`;
