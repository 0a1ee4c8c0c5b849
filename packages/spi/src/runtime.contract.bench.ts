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
} from './runtime.ts';

/**
 * Programs the suite asks for, and what each must do. A fixture says how its runtime does them.
 *
 * - `serve`: prints the line `ready` where logs are claimed, runs until SIGTERM, then exits 0 promptly
 * - `stubborn`: prints the line `ready`, then runs on; ignores SIGTERM
 * - `sleep SECONDS`: exits 0 after that time
 * - `exit CODE`: exits at once
 * - `echo LINE...`: each as a line to stdout, exits 0; `complain LINE...`: the same to stderr
 * - `print TEXT`: to stdout with no newline after it, exits 0
 * - `seq N`: the numbers 1 to N to stdout, a line each, exits 0
 * - `flood N`: N bytes `x` to stdout and a newline, exits 0
 * - `cat`: stdin to stdout until its end, exits 0
 * - `count`: at the end of stdin prints how many bytes came, exits 0
 * - `size`: for every line of stdin prints `ROWS COLUMNS` of its terminal; exits 0 at the end of stdin
 * - `env NAME`: prints the variable; `pwd`: prints the directory; `read PATH`: prints the file; all exit 0
 * - `listen PORT`: echoes what comes over TCP, any number of connections; until SIGTERM
 * - `idle TOKEN`: runs until SIGTERM, with TOKEN as an argument; `alive TOKEN`: exits 0 when a process with that argument runs beside it, else 1
 * - `hog`: takes memory until it is killed; `memory-limit`: prints its cgroup's memory limit in bytes
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

/** What a runtime may be unable to do. Everything is claimed unless the fixture says why not. */
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
  /** Logs are complete even when much more than a pipe holds was written just before the exit. */
  | 'logBursts';

export interface RuntimeFixture {
  readonly driver: RuntimeDriver;
  /** A reference to run containers from; present already. `host` where the runtime has no images. */
  readonly image: string;
  /** How this runtime runs one of the suite's programs: as a container or by exec. */
  command(program: Program, args: readonly string[]): { readonly command: readonly string[]; readonly args: readonly string[] };
  /** What is not claimed, and the reason shown beside the skipped test. */
  readonly lacks?: Partial<Readonly<Record<RuntimeCapability, string>>>;
  /** Network of the suite's sandboxes. Default: `POD` where there are network namespaces, else `NODE`. */
  readonly network?: NamespaceMode;
  readonly handler?: string;
  readonly cgroupParent?: string;
  /** An image that is not here yet, in a registry that wants `auth`; and one that is in no registry. Needed for `imagePull`. */
  readonly pull?: { readonly image: string; readonly auth: RegistryAuth; readonly missing: string };
  /** Drops the driver (as the end of its process would) and opens a new one over the same runtime. Needed for `adoption`. */
  restartClient?(): Promise<RuntimeDriver>;
  dispose(): Promise<void>;
  /** How long the suite waits for anything. Default 20,000. */
  readonly patienceMs?: number;
}

/** The programs in terms of a POSIX shell, for any runtime that can run one. `cat`, `seq`, `head`, `tr`, `wc`, `grep`, `stty` and busybox (for its `nc`) are used. */
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
    // `alive` must not find itself
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

/** Parses a log in CRI format; throws at the first line that is not. */
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

/** Partial records joined; what one stream wrote. */
export function joinLog(records: readonly LogRecord[], stream: 'stdout' | 'stderr'): string {
  return records
    .filter((record) => record.stream === stream)
    .map((record) => record.text + (record.full ? '\n' : ''))
    .join('');
}

/** Reads a driver's events from the moment they are live, and lets tests wait for them. */
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

  /** Resolves with the first item from `since` on that matches. */
  next(
    match: (item: RuntimeEvent | 'resync') => boolean,
    since: number,
    what: string,
    patienceMs: number,
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
        reject(new Error(`no event within ${patienceMs} ms: ${what}; heard since: ${JSON.stringify(this.items.slice(since))}`));
      }, patienceMs);
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

export interface BenchSandbox {
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

/** What the tests work with: builds configs, remembers what to clean up, waits for transitions. */
export class Bench {
  readonly fixture: RuntimeFixture;
  readonly directory: string;
  readonly patienceMs: number;
  driver: RuntimeDriver;
  events: EventRecorder;
  readonly #sandboxes = new Set<string>();

  private constructor(fixture: RuntimeFixture, directory: string) {
    this.fixture = fixture;
    this.directory = directory;
    this.patienceMs = fixture.patienceMs ?? 20_000;
    this.driver = fixture.driver;
    this.events = new EventRecorder(fixture.driver);
  }

  static async open(fixture: RuntimeFixture): Promise<Bench> {
    const bench = new Bench(fixture, await mkdtemp(join(tmpdir(), 'oarlock-runtime-')));
    await bench.live();
    return bench;
  }

  /** Every stream of events begins with `resync` when it is live. */
  async live(): Promise<void> {
    await this.events.next((item) => item === 'resync', 0, 'resync when the stream is live', this.patienceMs);
  }

  async restartClient(): Promise<void> {
    if (!this.fixture.restartClient) throw new Error('adoption is claimed, but the fixture has no restartClient');
    await this.events.close();
    this.driver = await this.fixture.restartClient();
    this.events = new EventRecorder(this.driver);
    await this.live();
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

  async sandbox(options: SandboxOptions = {}): Promise<BenchSandbox> {
    const config = this.sandboxConfig(options);
    return { id: await this.runSandbox(config), config };
  }

  containerConfig(program: Program, args: readonly string[] = [], { name, attempt = 0, ...rest }: ContainerOptions = {}): ContainerConfig {
    const given = this.fixture.command(program, args);
    const called = name ?? `c-${randomUUID().slice(0, 8)}`;
    return {
      metadata: { name: called, attempt },
      image: { image: this.fixture.image, userSpecifiedImage: this.fixture.image },
      command: given.command,
      args: given.args,
      envs: [],
      mounts: [],
      labels: {},
      annotations: {},
      logPath: `${called}/${attempt}.log`,
      stdin: false,
      stdinOnce: false,
      tty: false,
      linux: { resources: {}, security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
      ...rest,
    };
  }

  create(sandbox: BenchSandbox, program: Program, args: readonly string[] = [], options: ContainerOptions = {}): Promise<string> {
    return this.driver.createContainer(sandbox.id, this.containerConfig(program, args, options), sandbox.config);
  }

  async start(sandbox: BenchSandbox, program: Program, args: readonly string[] = [], options: ContainerOptions = {}): Promise<string> {
    const id = await this.create(sandbox, program, args, options);
    await this.driver.startContainer(id);
    return id;
  }

  /** Starts a container and waits until it has exited. */
  async finish(
    sandbox: BenchSandbox,
    program: Program,
    args: readonly string[] = [],
    options: ContainerOptions = {},
  ): Promise<ContainerStatus> {
    return this.exited(await this.start(sandbox, program, args, options));
  }

  /** Waits for the event of a transition. */
  async heard(type: RuntimeEvent['type'], id: string, since = 0): Promise<RuntimeEvent> {
    const item = await this.events.next(
      (one) => one !== 'resync' && one.type === type && (one.containerId ?? one.sandboxId) === id,
      since,
      `${type} of ${id}`,
      this.patienceMs,
    );
    return item as RuntimeEvent;
  }

  /** Waits for the event, then reads the status: by then it must say EXITED. */
  async exited(id: string): Promise<ContainerStatus> {
    await this.heard('STOPPED', id);
    return this.driver.containerStatus(id);
  }

  /** Waits until the status is as wanted, looking only when an event says that there is something to see. */
  async until(id: string, holds: (status: ContainerStatus) => boolean, what: string): Promise<ContainerStatus> {
    for (;;) {
      const since = this.events.items.length;
      const status = await this.driver.containerStatus(id);
      if (holds(status)) return status;
      await this.events.next((one) => one === 'resync' || one.containerId === id, since, `${what} of ${id}`, this.patienceMs);
    }
  }

  async log(id: string): Promise<LogRecord[]> {
    return parseLog(await readFile((await this.driver.containerStatus(id)).logPath, 'utf8'));
  }

  exec(id: string, program: Program, args: readonly string[], timeoutSeconds = 30) {
    return this.driver.execSync(id, this.argv(program, args), timeoutSeconds);
  }

  argv(program: Program, args: readonly string[] = []): string[] {
    const given = this.fixture.command(program, args);
    return [...given.command, ...given.args];
  }

  /** Waits until a container's log holds `text`: the one thing that tells that a program has come so far. */
  async logged(id: string, text: string): Promise<void> {
    const { logPath } = await this.driver.containerStatus(id);
    await eventually(async () => (await readFile(logPath, 'utf8')).includes(text), `${text} in the log`, this.patienceMs);
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

/** For what no event tells. */
export async function eventually(holds: () => Promise<boolean>, what: string, patienceMs: number): Promise<void> {
  const end = Date.now() + patienceMs;
  for (let pause = 5; ; pause = Math.min(pause * 2, 200)) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`did not come true within ${patienceMs} ms: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, pause);
    });
  }
}

/** A writable end that keeps what it was given. */
export class Collected {
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
  /** Resolves when there is more. */
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
