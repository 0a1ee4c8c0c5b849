import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Writable } from 'node:stream';
import type {
  ContainerConfig,
  ContainerStatus,
  NamespaceMode,
  PodSandboxConfig,
  RegistryAuth,
  RuntimeDriver,
  RuntimeEvent,
} from '../runtime.ts';

/**
 * Programs that the suite runs, and what each must do. A fixture defines how its runtime runs them.
 *
 * - `serve`: prints the line `ready` if logs are supported, runs until SIGTERM, then exits 0 promptly
 * - `stubborn`: prints the line `ready`, then runs on; ignores SIGTERM
 * - `sleep SECONDS`: exits 0 after that time
 * - `exit CODE`: exits immediately
 * - `echo LINE...`: prints each argument as a line to stdout, exits 0; `complain LINE...`: the same to stderr
 * - `print TEXT`: prints to stdout without a newline, exits 0
 * - `seq N`: prints the numbers 1 to N to stdout, one per line, exits 0
 * - `flood N`: prints N bytes `x` and a newline to stdout, exits 0
 * - `cat`: copies stdin to stdout until its end, exits 0
 * - `count`: prints the number of bytes of stdin at its end, exits 0
 * - `size`: prints `ROWS COLUMNS` of its terminal for every line of stdin; exits 0 at the end of stdin
 * - `env NAME`: prints the variable; `pwd`: prints the directory; `read PATH`: prints the file; all exit 0
 * - `listen PORT`: echoes TCP connections, any number of them, until SIGTERM
 * - `idle TOKEN`: runs until SIGTERM with TOKEN as an argument; `alive TOKEN`: exits 0 if a process with that argument runs beside it, else 1
 * - `hog`: allocates memory until it is killed; `memory-limit`: prints its cgroup's memory limit in bytes
 */
export type Program =
  | 'serve'
  | 'stubborn'
  | 'sleep'
  | 'exit'
  | 'echo'
  | 'complain'
  | 'print'
  | 'seq'
  | 'flood'
  | 'cat'
  | 'count'
  | 'size'
  | 'env'
  | 'pwd'
  | 'read'
  | 'listen'
  | 'idle'
  | 'alive'
  | 'hog'
  | 'memory-limit';

/** Optional capabilities of a runtime. A fixture supports everything that it does not list in `unsupported`. */
export type RuntimeCapability =
  | 'logs'
  | 'execSync'
  | 'exec'
  | 'execTty'
  | 'attach'
  | 'portForward'
  | 'stats'
  | 'updateResources'
  | 'oom'
  | 'images'
  | 'imagePull'
  | 'imageRemove'
  | 'adoption'
  | 'addresses'
  | 'mounts'
  | 'environment'
  | 'signals'
  | 'nameReservation'
  /** Logs are complete even if the container wrote much more than a pipe buffer just before its exit. */
  | 'logBursts';

/** Access to the runtime driver under test, provided by the package of the driver. */
export interface RuntimeFixture {
  readonly driver: RuntimeDriver;
  /** An image that is already present on the node; `host` if the runtime has no images. */
  readonly image: string;
  /** Returns the command line of one of the suite's programs, for a container or exec. */
  command(program: Program, args: readonly string[]): { readonly command: readonly string[]; readonly args: readonly string[] };
  /** Unsupported capabilities, each with the reason shown for the skipped tests. */
  readonly unsupported?: Partial<Readonly<Record<RuntimeCapability, string>>>;
  /** Network of the suite's sandboxes. Default: `POD` if the runtime has network namespaces, else `NODE`. */
  readonly network?: NamespaceMode;
  readonly handler?: string;
  readonly cgroupParent?: string;
  /** An image that is not present, in a registry that requires `auth`; and an image that does not exist. Required for `imagePull`. */
  readonly pull?: { readonly image: string; readonly auth: RegistryAuth; readonly missing: string };
  /** Abandons the driver as if the driver's process had ended, and returns a new driver for the same runtime. Required for `adoption`. */
  restartClient?(): Promise<RuntimeDriver>;
  dispose(): Promise<void>;
  /** Timeout of each wait of the suite, in milliseconds. Default 60,000: a guard, because machines are slow and busy. */
  readonly timeoutMs?: number;
}

/** Returns the programs as POSIX shell scripts. They use `cat`, `seq`, `head`, `tr`, `wc`, `grep`, `stty` and busybox (for `nc`). */
export function shellPrograms(shell = '/bin/sh'): RuntimeFixture['command'] {
  const scripts: Readonly<Record<Program, string>> = {
    serve: 'trap "exit 0" TERM; echo ready; while :; do sleep 3600 & wait $!; done',
    stubborn: 'trap "" TERM; echo ready; while :; do sleep 3600; done',
    sleep: 'exec sleep "$1"',
    exit: 'exit "$1"',
    echo: 'for line; do printf "%s\\n" "$line"; done',
    complain: 'for line; do printf "%s\\n" "$line" >&2; done',
    print: 'printf %s "$1"',
    seq: 'exec seq 1 "$1"',
    flood: 'head -c "$1" /dev/zero | tr "\\0" x; echo',
    cat: 'exec cat',
    count: 'exec wc -c',
    size: 'while read -r line; do stty size; done',
    env: 'eval "printf \'%s\\n\' \\"\\$$1\\""',
    pwd: 'pwd',
    read: 'exec cat "$1"',
    listen: 'exec busybox nc -ll -p "$1" -e cat',
    idle: 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done',
    alive: 'for f in /proc/[0-9]*/cmdline; do tr "\\0" "\\n" < "$f" 2>/dev/null | grep -qx "$1$2" && exit 0; done; exit 1',
    hog: 'exec tail /dev/zero',
    'memory-limit': 'cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes',
  };
  return (program, args) => {
    // the token is passed in two parts, so that `alive` does not find itself
    const words = program === 'alive' ? [args[0]?.slice(0, 1) ?? '', args[0]?.slice(1) ?? ''] : args;
    return { command: [shell, '-c', scripts[program]], args: [program, ...words] };
  };
}

/** One line of a container's log file. */
export interface LogRecord {
  readonly time: number;
  readonly stream: 'stdout' | 'stderr';
  readonly full: boolean;
  readonly text: string;
}

const logLine = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF](?::\S*)?) (.*)$/s;

/** Parses a container log in CRI format. @throws Error at the first invalid line */
export function parseLog(bytes: string): LogRecord[] {
  if (bytes === '') return [];
  if (!bytes.endsWith('\n')) throw new Error(`the log ends in the middle of a line: ${JSON.stringify(bytes.slice(-200))}`);
  return bytes
    .slice(0, -1)
    .split('\n')
    .map((line) => {
      const match = logLine.exec(line);
      if (!match) throw new Error(`not a line of a CRI log: ${JSON.stringify(line.slice(0, 200))}`);
      return {
        time: Date.parse(match[1] ?? ''),
        stream: match[2] as 'stdout' | 'stderr',
        full: match[3]?.startsWith('F') ?? false,
        text: match[4] ?? '',
      };
    });
}

/** Joins partial log records, and returns the text that a container wrote to one stream. */
export function joinLog(records: readonly LogRecord[], stream: 'stdout' | 'stderr'): string {
  return records
    .filter((record) => record.stream === stream)
    .map((record) => record.text + (record.full ? '\n' : ''))
    .join('');
}

/** Records a driver's events, and lets tests wait for them. */
export class EventRecorder {
  readonly items: (RuntimeEvent | 'resync')[] = [];
  readonly #stop = new AbortController();
  readonly #waiters = new Set<() => void>();
  readonly #reading: Promise<void>;
  #failure: unknown;

  constructor(driver: RuntimeDriver) {
    this.#reading = this.#read(driver);
  }

  async #read(driver: RuntimeDriver): Promise<void> {
    try {
      for await (const item of driver.events(this.#stop.signal)) {
        this.items.push(item);
        for (const wake of [...this.#waiters]) wake();
      }
      if (!this.#stop.signal.aborted) throw new Error('the event stream ended although its signal was not aborted');
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#failure = error;
      for (const wake of [...this.#waiters]) wake();
    }
  }

  /** Resolves with the first matching event at or after index `since`. */
  next(
    match: (item: RuntimeEvent | 'resync') => boolean,
    since: number,
    what: string,
    timeoutMs: number,
  ): Promise<RuntimeEvent | 'resync'> {
    return new Promise((resolve, reject) => {
      let position = since;
      const look = () => {
        for (; position < this.items.length; position++) {
          const item = this.items[position];
          if (item !== undefined && match(item)) {
            settle();
            resolve(item);
            return;
          }
        }
        if (this.#failure !== undefined) {
          settle();
          reject(this.#failure);
        }
      };
      const timer = setTimeout(() => {
        settle();
        reject(new Error(`no event within ${timeoutMs} ms: ${what}; events since: ${JSON.stringify(this.items.slice(since))}`));
      }, timeoutMs);
      const settle = () => {
        clearTimeout(timer);
        this.#waiters.delete(look);
      };
      this.#waiters.add(look);
      look();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#reading;
  }
}

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

/** A writable stream that stores its input. */
export class OutputBuffer {
  readonly #chunks: Buffer[] = [];
  readonly stream: Writable;
  #waiters: (() => void)[] = [];
  constructor() {
    const through = new PassThrough();
    through.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      for (const wake of this.#waiters.splice(0)) wake();
    });
    this.stream = through;
  }
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
  get text(): string {
    return this.bytes.toString('utf8');
  }
  /** Resolves at the next input. */
  more(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }
  async until(holds: (text: string) => boolean): Promise<string> {
    while (!holds(this.text)) await this.more();
    return this.text;
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
