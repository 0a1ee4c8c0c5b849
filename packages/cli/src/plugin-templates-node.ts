import type { PluginTemplate } from './plugin-templates.ts';

const notYet = 'a skeleton: its methods are still to be written';
const probe = `  // take this away when it does something
  probe: async () => unavailable('__ID__ is ${notYet}'),`;
const empty = '`{}`: none yet';

export const storage: PluginTemplate = {
  section: { key: 'storage', many: false },
  config: '{}',
  summary:
    'A skeleton of a storage: every call is refused with `StorageError` `Unavailable`, and its probe says that it cannot be used yet.',
  keys: [empty],
  tests: 'The storage contract, skipped with a reason until there is something to test.',
  steps: [
    'Read the comments of `StorageDriver` in `@oarlock/spi/storage`, and docs/slots/storage.md.',
    'Write `commit`, `get` and `range` in `src/storage.ts`; then `watch` and `requestProgress`; then `compact` and time to live.',
    'In `test/contract.test.ts` take away `unavailable` and give the fixture what it asks for: `tick`, and `reopen` once it is durable.',
    'Set `declares` and `traits` to the same truth, write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/storage.ts': `|import { StorageError, type ChangeBatch, type StorageDriver } from '@oarlock/spi/storage';

const refuse = (call: string): Promise<never> =>
  Promise.reject(new StorageError('Unavailable', \`__ID__ cannot do this yet: \${call}\`));

export class __Class__ implements StorageDriver {
  readonly traits = { durable: false, shared: false, maxValueBytes: 1_572_864 };

  get(): Promise<never> {
    return refuse('get');
  }
  range(): Promise<never> {
    return refuse('range');
  }
  commit(): Promise<never> {
    return refuse('commit');
  }
  async *watch(): AsyncGenerator<ChangeBatch> {
    yield await refuse('watch');
  }
  requestProgress(): Promise<never> {
    return refuse('requestProgress');
  }
  compact(): Promise<never> {
    return refuse('compact');
  }
}
`,
    'src/plugin.ts': `|import { unavailable } from '@oarlock/kernel/plugin';
|import { Storage } from '@oarlock/spi/storage';
|import { z } from 'zod';
|import { __Class__ } from './storage.ts';

export default Storage.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  declares: { durable: false, shared: false },
${probe}
  create: () => new __Class__(),
});
`,
    'test/contract.test.ts': `|import { storageContract } from '@oarlock/spi/storage.contract';
|import { __Class__ } from '../src/storage.ts';

storageContract('__ID__', async () => ({ driver: new __Class__(), dispose: async () => {} }), {
  unavailable: 'its methods are still to be written',
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
