import type { PluginTemplate } from './plugin-templates.ts';

const notYet = 'a skeleton: its methods are still to be written';
const probe = `  // take this away when it does something
  probe: async () => unavailable('__ID__ is ${notYet}'),`;
const empty = '`{}`: none yet';

export const storage: PluginTemplate = {
  dependencies: ['@oarlock/mvcc'],
  devDependencies: ['@oarlock/testing'],
  section: { key: 'storage', many: false },
  config: '{ maxValueBytes: 1572864 }',
  summary: 'Keeps everything in memory: a whole storage to begin with. `#apply` in `src/storage.ts` is where yours writes things down.',
  keys: ['| `maxValueBytes` | 1572864 | the longest value that is taken |'],
  tests: 'The storage contract, on a clock of its own.',
  files: {
    'src/storage.ts': `|import type { Clock } from '@oarlock/kernel/clock';
|import { mvccDefaults, MvccStore } from '@oarlock/mvcc/mvcc-store';
|import { checkWrites, refusal } from '@oarlock/mvcc/write-rules';
|import {
  StorageError,
  type ChangeBatch,
  type Commit,
  type Entry,
  type Expectation,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';

/** Keys with their past are kept by @oarlock/mvcc: this class says when a commit counts. */
export class __Class__ implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #store: MvccStore;

  constructor({ clock, maxValueBytes }: { readonly clock: Clock; readonly maxValueBytes: number }) {
    this.traits = { durable: false, shared: false, maxValueBytes };
    this.#store = new MvccStore({
      ...mvccDefaults,
      clock,
      expired: (due) => {
        this.#apply(due.map(({ key }) => ({ key, value: null })));
      },
    });
  }

  async stop(): Promise<void> {
    this.#store.fail(new StorageError('Unavailable', '__ID__ is stopped'));
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    return this.#store.get(key, revision);
  }

  async range(options: RangeOptions): Promise<Page> {
    return this.#store.range(options);
  }

  async commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit> {
    this.#store.checkRunning();
    checkWrites(writes, this.traits.maxValueBytes);
    return refusal(expect, (key) => this.#store.standing(key)) ?? { ok: true, revision: this.#apply(writes) };
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return this.#store.watch(prefix, options);
  }

  async requestProgress(): Promise<Revision> {
    return this.#store.progress();
  }

  async compact(revision: Revision): Promise<void> {
    if (this.#store.compactable(revision)) await this.#store.compact(revision);
  }

  async skipTo(revision: Revision): Promise<void> {
    this.#store.checkRunning();
    this.#store.skipTo(revision);
  }

  /** One that is durable writes down first what it applies, and says so in its traits. Returns the revision after it. */
  #apply(writes: readonly Write[]): Revision {
    this.#store.apply(writes, this.#store.revision + 1);
    return this.#store.revision;
  }
}
`,
    'src/plugin.ts': `|import { Storage } from '@oarlock/spi/storage';
|import { z } from 'zod';
|import { __Class__ } from './storage.ts';

export default Storage.plugin({
  id: '__ID__',
  config: z.strictObject({ maxValueBytes: z.int().min(1_048_576).default(1_572_864) }),
  declares: { durable: false, shared: false },
  create: ({ config }, { clock }) => new __Class__({ clock, ...config }),
});
`,
    'test/contract.test.ts': `|import { storageContract } from '@oarlock/spi/storage.contract';
|import { FakeClock } from '@oarlock/testing/fake-clock';
|import { __Class__ } from '../src/storage.ts';

storageContract('__ID__', async () => {
  const clock = new FakeClock();
  const driver = new __Class__({ clock, maxValueBytes: 1_572_864 });
  return { driver, dispose: () => driver.stop(), tick: (ms) => clock.advance(ms) };
});
`,
  },
};

/** What each call is to do, as the author reads it beside every case of the contract that wants it. */
const runtimeCalls: Readonly<Record<string, string>> = {
  runPodSandbox: 'make what the containers of a pod share, and resolve with its id',
  stopPodSandbox: 'stop its containers and give back its network; again, and for what never was, it does nothing',
  removePodSandbox: 'remove the sandbox with all containers in it; again, and for what never was, it does nothing',
  createContainer: 'make a container in a sandbox without starting it, and resolve with its id',
  startContainer: 'start a container that was created, with its output in the log file of its config',
  stopContainer: 'send SIGTERM, SIGKILL after the timeout, and resolve when it has exited',
  removeContainer: 'remove a container, also one that runs; again, and for what never was, it does nothing',
  updateContainerResources: 'change the limits of a container that runs',
  reopenContainerLog: 'go on in a new file where the log file was put aside',
  execSync: 'run a command in a container, and resolve with its output and exit code',
  exec: 'run a command in a container with streams, and resolve with its exit code',
  attach: 'join the streams of a container that runs',
  portForward: 'open a byte stream to a port inside the sandbox',
  containerStats: 'say the processor time and memory of a container',
  pullImage: 'have an image come, and resolve with the reference to create containers from',
  removeImage: 'remove an image; one that is not there is removed',
  imageFsInfo: 'say where images are and how much they take',
};

export const runtime: PluginTemplate = {
  section: { key: 'runtimes', many: true },
  config: '{}',
  summary:
    'A skeleton of a container runtime without sandboxes, containers and images: what would make one is refused with `RuntimeError` `Unsupported`, and its probe says that it cannot be used yet.',
  keys: [empty],
  tests: 'The runtime contract. A case that fails says which method is to be written, and what it does.',
  steps: [
    'Read the comments of `RuntimeDriver` in `@oarlock/spi/runtime`, and docs/slots/runtime.md.',
    'Write the life cycle of sandboxes and containers in `src/runtime.ts`; then logs and `events`; then `exec`, `attach` and `portForward`; then images and stats.',
    'Run the contract after each of them: it says what comes next. Name in `lacks` of `test/contract.test.ts` what the runtime will never do, with the reason.',
    'Set `declares` and `traits` to the same truth, write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/runtime.ts': `|import {
  RuntimeError,
  type Container,
  type ContainerStats,
  type ContainerStatus,
  type Image,
  type PodSandbox,
  type PodSandboxStatus,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeInfo,
} from '@oarlock/spi/runtime';

const toWrite = (call: string, what: string): Promise<never> =>
  Promise.reject(new RuntimeError('Unsupported', \`write \${call} in src/runtime.ts: \${what}\`));

/** Runs nothing yet, and says so. */
export class __Class__ implements RuntimeDriver {
  readonly traits = { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false };

  async version(): Promise<RuntimeInfo> {
    return { name: '__ID__', version: '0.1.0', apiVersion: 'v1' };
  }
  async status(): Promise<readonly RuntimeCondition[]> {
    const skeleton = { status: false, reason: 'Skeleton', message: 'its methods are still to be written' };
    return [
      { type: 'RuntimeReady', ...skeleton },
      { type: 'NetworkReady', ...skeleton },
    ];
  }
  /** Of one that there is: its state, addresses and when it was made. */
  async podSandboxStatus(id: string): Promise<PodSandboxStatus> {
    throw new RuntimeError('NotFound', \`there is no sandbox \${id}\`);
  }
  /** Of one that there is: its state, times, exit code and reason. */
  async containerStatus(id: string): Promise<ContainerStatus> {
    throw new RuntimeError('NotFound', \`there is no container \${id}\`);
  }
  async listPodSandbox(): Promise<readonly PodSandbox[]> {
    return [];
  }
  async listContainers(): Promise<readonly Container[]> {
    return [];
  }
  async listContainerStats(): Promise<readonly ContainerStats[]> {
    return [];
  }
  async listImages(): Promise<readonly Image[]> {
    return [];
  }
  async imageStatus(): Promise<Image | undefined> {
    return undefined;
  }
${Object.entries(runtimeCalls)
  .map(([call, what]) => `  ${call}(): Promise<never> {\n    return toWrite('${call}', '${what}');\n  }\n`)
  .join('')}  async *events(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    yield 'resync'; // and then what happens to sandboxes and containers
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
`,
    'src/plugin.ts': `|import { unavailable } from '@oarlock/kernel/plugin';
|import { Runtime } from '@oarlock/spi/runtime';
|import { z } from 'zod';
|import { __Class__ } from './runtime.ts';

export default Runtime.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  declares: { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false },
${probe}
  create: () => new __Class__(),
});
`,
    'test/contract.test.ts': `|import { runtimeContract, shellPrograms } from '@oarlock/spi/runtime.contract';
|import { __Class__ } from '../src/runtime.ts';

runtimeContract('__ID__', async () => ({
  driver: new __Class__(),
  image: 'host',
  command: shellPrograms(),
  // what the runtime will never do, with the reason
  lacks: {
    images: 'it runs what is on the machine, as its traits say',
    imagePull: 'it has no images',
    imageRemove: 'it has no images',
  },
  dispose: async () => {},
}));
`,
  },
};

export const network: PluginTemplate = {
  section: { key: 'network', many: false },
  config: '{}',
  summary:
    'A skeleton of a pod network: it knows its node once it is set up, refuses to add and check with `NetworkError` `PluginFailed`, and its probe says that it cannot be used yet.',
  keys: [empty],
  tests: 'The network contract. A case that fails says which method is to be written, and what it does.',
  steps: [
    'Read the comments of `NetworkDriver` in `@oarlock/spi/network`, and docs/slots/network.md.',
    'Choose `namespace`: `pod` when sandboxes have network namespaces, `node` when they share the one of the node.',
    'Write `setup`, `add` and `del` in `src/network.ts`; then `check` and `gc`, from what is written down on disk.',
    'Run the contract after each of them: it says what comes next. Give the fixture of `test/contract.test.ts` `restart`, `crashAdd` and `census` when `add` writes things down.',
    'Set `declares` and `traits` to the same truth, write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/network.ts': `|import { NetworkError, type NetworkDriver, type NodeNetwork } from '@oarlock/spi/network';

const toWrite = (call: string, what: string): Promise<never> =>
  Promise.reject(new NetworkError('PluginFailed', \`write \${call} in src/network.ts: \${what}\`));

export class __Class__ implements NetworkDriver {
  readonly traits = { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' } as const;

  #node: NodeNetwork | undefined;

  /** Again, and with other ranges, it keeps what was added. Make bridges, routes and rules here. */
  async setup(node: NodeNetwork): Promise<void> {
    this.#node = node;
  }
  add(): Promise<never> {
    return toWrite('add', 'give the attachment an address of podCIDRs, write it down before it is used, and resolve with it');
  }
  check(): Promise<never> {
    return toWrite('check', 'resolve where what add has made is still there, else throw CheckFailed');
  }
  /** Succeeds on what is gone: nothing was ever added. */
  async del(): Promise<void> {}
  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    return this.#node === undefined ? { ready: false, message: '__ID__ is not set up' } : { ready: true, message: '' };
  }
  /** Nothing was ever added: there is nothing to free. */
  async gc(): Promise<void> {}
}
`,
    'src/plugin.ts': `|import { unavailable } from '@oarlock/kernel/plugin';
|import { Network } from '@oarlock/spi/network';
|import { z } from 'zod';
|import { __Class__ } from './network.ts';

export default Network.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  declares: { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' },
${probe}
  create: () => new __Class__(),
});
`,
    'test/contract.test.ts': `|import type { NodeNetwork } from '@oarlock/spi/network';
|import { networkContract } from '@oarlock/spi/network.contract';
|import { __Class__ } from '../src/network.ts';

const node: NodeNetwork = {
  nodeName: 'n1',
  podCIDRs: ['127.144.0.0/24'],
  clusterCIDRs: ['127.128.0.0/10'],
  serviceCIDRs: ['127.96.0.0/16'],
  nodeIPs: ['127.0.0.1'],
};

networkContract('__ID__', async () => ({
  driver: new __Class__(),
  node,
  small: { ...node, podCIDRs: ['127.144.0.0/28'] },
  // what the network will never do, with the reason
  lacks: { restart: 'give the fixture restart, then take this away', crash: 'give the fixture crashAdd, then take this away' },
  dispose: async () => {},
}));
`,
  },
};
