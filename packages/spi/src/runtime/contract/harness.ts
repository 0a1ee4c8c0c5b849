import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ContainerConfig, ContainerStatus, PodSandboxConfig, RuntimeDriver, RuntimeEvent } from '../runtime.ts';
import { parseLog, type LogRecord } from './container-log.ts';
import { EventRecorder } from './event-recorder.ts';
import type { Program, RuntimeCapability, RuntimeFixture } from './fixture.ts';

export interface HarnessSandbox {
  readonly id: string;
  readonly config: PodSandboxConfig;
}
export interface SandboxOptions {
  readonly name?: string;
  readonly attempt?: number;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}
type ContainerOptions = Partial<Omit<ContainerConfig, 'metadata' | 'command' | 'args'>> & {
  readonly name?: string;
  readonly attempt?: number;
};

/** A runtime driver under test, with methods that build configs, clean up, and wait for state transitions. */
export class RuntimeHarness {
  readonly fixture: RuntimeFixture;
  readonly directory: string;
  readonly timeoutMs: number;
  driver: RuntimeDriver;
  events: EventRecorder;
  readonly #sandboxes = new Set<string>();

  private constructor(fixture: RuntimeFixture, directory: string) {
    this.fixture = fixture;
    this.directory = directory;
    this.timeoutMs = fixture.timeoutMs ?? 60_000;
    this.driver = fixture.driver;
    this.events = new EventRecorder(fixture.driver);
  }

  static async open(fixture: RuntimeFixture): Promise<RuntimeHarness> {
    const harness = new RuntimeHarness(fixture, await mkdtemp(join(tmpdir(), 'oarlock-runtime-')));
    await harness.waitForResync();
    return harness;
  }

  /** Waits for the first event. Every event stream begins with `resync`. */
  async waitForResync(): Promise<void> {
    await this.events.next((item) => item === 'resync', 0, 'resync when the stream is live', this.timeoutMs);
  }

  async restartClient(): Promise<void> {
    if (!this.fixture.restartClient) throw new Error('adoption is supported, but the fixture has no restartClient');
    await this.events.close();
    this.driver = await this.fixture.restartClient();
    this.events = new EventRecorder(this.driver);
    await this.waitForResync();
  }

  sandboxConfig({ name, attempt = 0, uid = randomUUID(), labels = {}, annotations = {} }: SandboxOptions = {}): PodSandboxConfig {
    const pod = name ?? `pod-${uid.slice(0, 8)}`;
    return {
      metadata: { name: pod, uid, namespace: 'contract', attempt },
      hostname: pod,
      logDirectory: join(this.directory, uid),
      portMappings: [],
      labels: { 'io.kubernetes.pod.uid': uid, ...labels },
      annotations,
      linux: {
        ...(this.fixture.cgroupParent !== undefined && { cgroupParent: this.fixture.cgroupParent }),
        security: {
          namespaces: {
            network: this.fixture.network ?? (this.driver.traits.networkNamespaces ? 'POD' : 'NODE'),
            pid: 'CONTAINER',
            ipc: 'POD',
          },
        },
      },
    };
  }

  async runSandbox(config: PodSandboxConfig): Promise<string> {
    const id = await this.driver.runPodSandbox(config, this.fixture.handler ?? '');
    this.#sandboxes.add(id);
    return id;
  }

  async sandbox(options: SandboxOptions = {}): Promise<HarnessSandbox> {
    const config = this.sandboxConfig(options);
    return { id: await this.runSandbox(config), config };
  }

  containerConfig(program: Program, args: readonly string[] = [], { name, attempt = 0, ...rest }: ContainerOptions = {}): ContainerConfig {
    const commandLine = this.fixture.command(program, args);
    const containerName = name ?? `c-${randomUUID().slice(0, 8)}`;
    return {
      metadata: { name: containerName, attempt },
      image: { image: this.fixture.image, userSpecifiedImage: this.fixture.image },
      command: commandLine.command,
      args: commandLine.args,
      envs: [],
      mounts: [],
      labels: {},
      annotations: {},
      logPath: `${containerName}/${attempt}.log`,
      stdin: false,
      stdinOnce: false,
      tty: false,
      linux: { resources: {}, security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
      ...rest,
    };
  }

  create(sandbox: HarnessSandbox, program: Program, args: readonly string[] = [], options: ContainerOptions = {}): Promise<string> {
    return this.driver.createContainer(sandbox.id, this.containerConfig(program, args, options), sandbox.config);
  }

  async start(sandbox: HarnessSandbox, program: Program, args: readonly string[] = [], options: ContainerOptions = {}): Promise<string> {
    const id = await this.create(sandbox, program, args, options);
    await this.driver.startContainer(id);
    return id;
  }

  /** Starts a container and waits until it has exited. */
  async runToExit(
    sandbox: HarnessSandbox,
    program: Program,
    args: readonly string[] = [],
    options: ContainerOptions = {},
  ): Promise<ContainerStatus> {
    return this.waitForExit(await this.start(sandbox, program, args, options));
  }

  /** Waits for the event that reports a state transition of a container or sandbox. */
  async waitForEvent(type: RuntimeEvent['type'], id: string, since = 0): Promise<RuntimeEvent> {
    const item = await this.events.next(
      (one) => one !== 'resync' && one.type === type && (one.containerId ?? one.sandboxId) === id,
      since,
      `${type} of ${id}`,
      this.timeoutMs,
    );
    return item as RuntimeEvent;
  }

  /** Waits for the STOPPED event of a container, and returns the container's status, whose state must be EXITED. */
  async waitForExit(id: string): Promise<ContainerStatus> {
    await this.waitForEvent('STOPPED', id);
    return this.driver.containerStatus(id);
  }

  /** Waits until the status of a container satisfies `holds`. Reads the status again after each event of the container. */
  async waitForStatus(id: string, holds: (status: ContainerStatus) => boolean, what: string): Promise<ContainerStatus> {
    for (;;) {
      const since = this.events.items.length;
      const status = await this.driver.containerStatus(id);
      if (holds(status)) return status;
      await this.events.next((one) => one === 'resync' || one.containerId === id, since, `${what} of ${id}`, this.timeoutMs);
    }
  }

  async log(id: string): Promise<LogRecord[]> {
    return parseLog(await readFile((await this.driver.containerStatus(id)).logPath, 'utf8'));
  }

  exec(id: string, program: Program, args: readonly string[], timeoutSeconds = 30) {
    return this.driver.execSync(id, this.argv(program, args), timeoutSeconds);
  }

  argv(program: Program, args: readonly string[] = []): string[] {
    const commandLine = this.fixture.command(program, args);
    return [...commandLine.command, ...commandLine.args];
  }

  /** Waits until a container's log contains `text`, which proves how far the program has run. */
  async waitForLog(id: string, text: string): Promise<void> {
    const { logPath } = await this.driver.containerStatus(id);
    await eventually(async () => (await readFile(logPath, 'utf8')).includes(text), `${text} in the log`, this.timeoutMs);
  }

  async clean(): Promise<void> {
    for (const id of this.#sandboxes) {
      await this.driver.stopPodSandbox(id);
      await this.driver.removePodSandbox(id);
    }
    this.#sandboxes.clear();
  }

  async close(): Promise<void> {
    try {
      await this.clean();
      await this.events.close();
    } finally {
      await this.fixture.dispose();
      await rm(this.directory, { recursive: true, force: true });
    }
  }
}

/**
 * Polls `holds` at increasing intervals (5 to 200 ms) until it returns true.
 * @throws Error if `holds` has not returned true within `timeoutMs`; the message contains `what`, a description of the condition
 */
export async function eventually(holds: () => Promise<boolean>, what: string, timeoutMs: number): Promise<void> {
  const end = Date.now() + timeoutMs;
  for (let pause = 5; ; pause = Math.min(pause * 2, 200)) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`condition not met within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, pause);
    });
  }
}

/** Declares the tests of one part of the suite. */
export interface Suite {
  /** Declares a test that requires no optional capability of the runtime. */
  test(title: string, body: (harness: RuntimeHarness) => Promise<void>): void;
  /**
   * Declares a test that requires one or more optional capabilities. The test is skipped, with the fixture's reason, if the fixture lists one of them
   * in `unsupported`.
   */
  needs(
    capability: RuntimeCapability | readonly RuntimeCapability[],
    title: string,
    body: (harness: RuntimeHarness) => Promise<void>,
  ): void;
}
