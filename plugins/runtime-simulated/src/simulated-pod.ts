import { formatMicroTime } from '@oarlock/api/values/time';
import type { Timer } from '@oarlock/primitives/clock';
import type {
  Container,
  ContainerConfig,
  ContainerState,
  ContainerStats,
  ContainerStatus,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxMetadata,
  PodSandboxStatus,
  SandboxState,
} from '@oarlock/spi/runtime';
import type { ContainerBehavior } from './pod-behavior.ts';
import type { Program } from './container-program.ts';

type Strings = Readonly<Record<string, string>>;
const noSessions: ReadonlySet<readonly string[]> = new Set();

/** The config, the address and the time of creation of a sandbox. */
export interface SimulatedSandboxOptions {
  readonly config: PodSandboxConfig;
  readonly address: string;
  readonly now: number;
}

export class SimulatedSandbox {
  readonly id: string;
  readonly metadata: PodSandboxMetadata;
  readonly labels: Strings;
  readonly annotations: Strings;
  readonly createdAt: number;
  readonly address: string;
  readonly logDirectory: string;
  readonly containers = new Set<SimulatedContainer>();
  state: SandboxState = 'READY';
  holdsAddress = true;

  constructor(id: string, { config, address, now }: SimulatedSandboxOptions) {
    this.id = id;
    this.metadata = config.metadata;
    this.labels = config.labels;
    this.annotations = config.annotations;
    this.logDirectory = config.logDirectory;
    this.createdAt = now;
    this.address = address;
  }

  view(): PodSandbox {
    const { id, metadata, state, createdAt, labels, annotations } = this;
    return { id, metadata, state, createdAt, labels, annotations };
  }
  status(): PodSandboxStatus {
    return { ...this.view(), ips: [this.address] };
  }
}

/** How a container ended. */
export interface ContainerExit {
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string | undefined;
}

export class SimulatedContainer {
  readonly id: string;
  readonly sandbox: SimulatedSandbox;
  readonly metadata: ContainerConfig['metadata'];
  readonly behavior: ContainerBehavior;
  readonly createdAt: number;
  readonly labels: Strings;
  readonly annotations: Strings;
  readonly argv: readonly string[];
  state: ContainerState = 'CREATED';
  starting = false;
  program: Program | undefined;
  exitTimer: Timer | undefined;
  readonly #image: string;
  readonly #imageRef: string;
  readonly #logPath: string;
  readonly #mounts: ContainerConfig['mounts'];
  readonly #envs: ContainerConfig['envs'];
  #sessions: Set<readonly string[]> | undefined;
  #onExit: Set<() => void> | undefined;
  #startedAt: number | undefined;
  #finishedAt: number | undefined;
  #exitCode: number | undefined;
  #reason: string | undefined;
  #message: string | undefined;

  constructor(
    id: string,
    sandbox: SimulatedSandbox,
    {
      config,
      imageRef,
      behavior,
      now,
    }: { readonly config: ContainerConfig; readonly imageRef: string; readonly behavior: ContainerBehavior; readonly now: number },
  ) {
    this.id = id;
    this.sandbox = sandbox;
    this.metadata = config.metadata;
    this.behavior = behavior;
    this.createdAt = now;
    this.labels = config.labels;
    this.annotations = config.annotations;
    this.argv = config.args.length === 0 ? config.command : [...config.command, ...config.args];
    this.#image = config.image.userSpecifiedImage ?? config.image.image;
    this.#imageRef = imageRef;
    this.#logPath = config.logPath;
    this.#mounts = config.mounts;
    this.#envs = config.envs;
  }

  get env(): ReadonlyMap<string, string> {
    return new Map(this.#envs.map(({ key, value }) => [key, value]));
  }
  get sessions(): Set<readonly string[]> {
    return (this.#sessions ??= new Set(noSessions));
  }
  get onExit(): Set<() => void> {
    return (this.#onExit ??= new Set());
  }

  run(now: number, program: Program): void {
    this.state = 'RUNNING';
    this.program = program;
    this.#startedAt = now;
  }

  end(now: number, { exitCode, reason, message }: ContainerExit): void {
    this.state = 'EXITED';
    this.exitTimer?.cancel();
    this.exitTimer = undefined;
    this.#finishedAt = now;
    this.#exitCode = exitCode;
    this.#reason = reason;
    this.#message = message;
    for (const callback of this.#onExit ?? []) callback();
    this.#onExit = undefined;
  }

  isHealthy(kind: string, now: number): boolean {
    const age = now - (this.#startedAt ?? now);
    if (kind !== 'liveness' && age < this.behavior.readyAfter) return false;
    return kind === 'startup' || this.behavior.unhealthyAfter === undefined || age < this.behavior.unhealthyAfter;
  }

  /** Returns the simulated log: a line for the start and one for the exit. */
  log(): string {
    const line = (at: number | undefined, text: string) => (at === undefined ? '' : `${formatMicroTime(at)} stdout F ${text}\n`);
    return (
      line(this.#startedAt, `simulated ${this.metadata.name}: ${this.argv.join(' ')}`.trimEnd()) +
      line(this.#startedAt === undefined ? undefined : this.#finishedAt, `exit ${this.#exitCode}`)
    );
  }

  view(): Container {
    const { id, metadata, state, createdAt, labels, annotations } = this;
    return {
      id,
      sandboxId: this.sandbox.id,
      metadata,
      image: this.#image,
      imageRef: this.#imageRef,
      state,
      createdAt,
      labels,
      annotations,
    };
  }

  status(): ContainerStatus {
    return {
      ...this.view(),
      mounts: this.#mounts,
      logPath: this.sandbox.logDirectory === '' ? '' : `${this.sandbox.logDirectory}/${this.#logPath}`,
      ...(this.#startedAt !== undefined && { startedAt: this.#startedAt }),
      ...(this.#finishedAt !== undefined && { finishedAt: this.#finishedAt }),
      ...(this.#exitCode !== undefined && { exitCode: this.#exitCode }),
      ...(this.#reason !== undefined && { reason: this.#reason }),
      ...(this.#message !== undefined && { message: this.#message }),
    };
  }

  stats(now: number): ContainerStats {
    const running = this.state === 'RUNNING' ? now - (this.#startedAt ?? now) : 0;
    return {
      id: this.id,
      at: now,
      cpuUsageNanos: running * this.behavior.millicores * 1000 + 1,
      memoryWorkingSetBytes: this.behavior.memoryMib * 2 ** 20,
      memoryRssBytes: this.behavior.memoryMib * 2 ** 20,
      writableLayerBytes: 0,
      writableLayerInodes: 0,
    };
  }
}
