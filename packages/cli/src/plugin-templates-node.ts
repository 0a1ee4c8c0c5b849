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

const runtimeCalls = [
  ['version', 'status', 'runPodSandbox', 'stopPodSandbox', 'removePodSandbox', 'podSandboxStatus', 'listPodSandbox'],
  ['createContainer', 'startContainer', 'stopContainer', 'removeContainer', 'containerStatus', 'listContainers'],
  ['updateContainerResources', 'reopenContainerLog', 'execSync', 'exec', 'attach', 'portForward', 'containerStats', 'listContainerStats'],
  ['listImages', 'imageStatus', 'pullImage', 'removeImage', 'imageFsInfo'],
].flat();

export const runtime: PluginTemplate = {
  section: { key: 'runtimes', many: true },
  config: '{}',
  summary:
    'A skeleton of a container runtime: every call is refused with `RuntimeError` `Unsupported`, and its probe says that it cannot be used yet.',
  keys: [empty],
  tests: 'The runtime contract, skipped with a reason until there is something to test.',
  steps: [
    'Read the comments of `RuntimeDriver` in `@oarlock/spi/runtime`, and docs/slots/runtime.md.',
    'Write the life cycle of sandboxes and containers in `src/runtime.ts`; then logs and `events`; then `exec`, `attach` and `portForward`; then images and stats.',
    'In `test/contract.test.ts` take away `unavailable`, and name in `lacks` what the runtime will never do, with the reason.',
    'Set `declares` and `traits` to the same truth, write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/runtime.ts': `|import { RuntimeError, type RuntimeDriver, type RuntimeEvent } from '@oarlock/spi/runtime';

const refuse = (call: string): Promise<never> =>
  Promise.reject(new RuntimeError('Unsupported', \`__ID__ cannot do this yet: \${call}\`));

export class __Class__ implements RuntimeDriver {
  readonly traits = { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false };

${runtimeCalls.map((call) => `  ${call}(): Promise<never> {\n    return refuse('${call}');\n  }\n`).join('')}  async *events(): AsyncGenerator<RuntimeEvent | 'resync'> {
    yield await refuse('events');
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

runtimeContract(
  '__ID__',
  async () => ({ driver: new __Class__(), image: 'host', command: shellPrograms(), dispose: async () => {} }),
  {
    unavailable: 'its methods are still to be written',
  },
);
`,
  },
};

export const network: PluginTemplate = {
  section: { key: 'network', many: false },
  config: '{}',
  summary:
    'A skeleton of a pod network: it is never ready, refuses to set up, add and check with `NetworkError` `PluginFailed`, and its probe says that it cannot be used yet.',
  keys: [empty],
  tests: 'The network contract, skipped with a reason until there is something to test.',
  steps: [
    'Read the comments of `NetworkDriver` in `@oarlock/spi/network`, and docs/slots/network.md.',
    'Choose `namespace`: `pod` when sandboxes have network namespaces, `node` when they share the one of the node.',
    'Write `setup`, `add` and `del` in `src/network.ts`; then `check` and `gc`, from what is written down on disk.',
    'In `test/contract.test.ts` take away `unavailable` and give the fixture `restart`, `crashAdd` and `census`.',
    'Set `declares` and `traits` to the same truth, write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/network.ts': `|import { NetworkError, type NetworkDriver } from '@oarlock/spi/network';

const refuse = (call: string): Promise<never> =>
  Promise.reject(new NetworkError('PluginFailed', \`__ID__ cannot do this yet: \${call}\`));

export class __Class__ implements NetworkDriver {
  readonly traits = { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' } as const;

  setup(): Promise<never> {
    return refuse('setup');
  }
  add(): Promise<never> {
    return refuse('add');
  }
  check(): Promise<never> {
    return refuse('check');
  }
  /** Succeeds on what is gone: nothing was ever added. */
  async del(): Promise<void> {}
  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    return { ready: false, message: '__ID__ is ${notYet}' };
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

networkContract(
  '__ID__',
  async () => ({ driver: new __Class__(), node, small: { ...node, podCIDRs: ['127.144.0.0/28'] }, dispose: async () => {} }),
  { unavailable: 'its methods are still to be written' },
);
`,
  },
};
