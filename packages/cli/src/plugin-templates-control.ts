import type { PluginTemplate } from './plugin-templates.ts';

export const scheduling: PluginTemplate = {
  section: { key: 'scheduling', many: true },
  config: '{ label: example.com/fast, weight: 5 }',
  summary: 'Prefers nodes that have a label. It only scores: when those are full, the pod goes elsewhere.',
  keys: [
    '| `label` | `example.com/preferred` | nodes with this label, whatever its value, score 100, the others 0 |',
    '| `weight` | `1` | how much it counts beside the other scores, 1 to 100 |',
  ],
  tests: 'The scheduling contract, with two nodes that have the label beside those of the suite.',
  files: {
    'src/plugin.ts': `|import { Scheduling } from '@oarlock/spi/scheduling';
|import { z } from 'zod';

/** Prefers nodes that have a label. */
export default Scheduling.plugin({
  id: '__ID__',
  config: z.strictObject({
    label: z.string().min(1).default('example.com/preferred'),
    weight: z.int().min(1).max(100).default(1),
  }),
  create: ({ config: { label, weight } }) => ({
    name: '__Class__',
    weight,
    // it refuses no pod, so it has none to wake
    requeueOn: [],
    score: (_state, _pod, { node }) => (node.metadata?.labels?.[label] === undefined ? 0 : 100),
  }),
});
`,
    'test/contract.test.ts': `|import { PluginHost } from '@oarlock/kernel/plugin-host';
|import { Scheduling } from '@oarlock/spi/scheduling';
|import { cycleState, nodeInfo, podInfo, schedulingContract } from '@oarlock/spi/scheduling.contract';
|import { expect, it } from 'vitest';
|import plugin from '../src/plugin.ts';

const labelled = ['fast-1', 'fast-2'].map((name) => nodeInfo({ name, labels: { 'example.com/preferred': '' } }));

function create() {
  const [created] = new PluginHost().place({ plugin }).get(Scheduling);
  if (created === undefined) throw new Error('the plugin was not created');
  return created;
}

schedulingContract('__ID__', () => ({ plugin: create(), nodes: labelled }));

it('prefers nodes with the label', () => {
  const nodes = [nodeInfo({ name: 'plain' }), ...labelled];
  const scores = nodes.map((node) => create().score?.(cycleState(nodes), podInfo({ name: 'web' }), node));
  expect(scores).toEqual([0, 100, 100]);
});
`,
  },
};

export const controller: PluginTemplate = {
  dependencies: ['@oarlock/api'],
  devDependencies: ['@oarlock/client', '@oarlock/testing'],
  section: { key: 'controllers', many: true },
  config: '{ label: example.com/team, value: unassigned }',
  summary: 'Gives a label to every namespace that does not have it. A value that somebody set stays.',
  keys: ['| `label` | `example.com/__NAME__` | the label |', '| `value` | `managed` | its value where there was none |'],
  needs: '`informers`',
  tests:
    'The controller contract: every write is cut in every way a write can fail, watches are dropped, the process is killed; all must come to the same end.',
  files: {
    'src/plugin.ts': `|import { namespaces } from '@oarlock/api/resources';
|import { isStatus } from '@oarlock/api/status';
|import { Informers } from '@oarlock/spi/client';
|import { Controllers, watch } from '@oarlock/spi/controller';
|import { z } from 'zod';

/** Gives a label to every namespace that does not have it. The key of its work is the namespace. */
export default Controllers.plugin({
  id: '__ID__',
  config: z.strictObject({
    label: z.string().min(1).default('example.com/__NAME__'),
    value: z.string().min(1).default('managed'),
  }),
  needs: { informers: Informers },
  create({ config: { label, value }, informers }) {
    const all = informers.of(namespaces);
    return {
      name: '__NAME__',
      watches: [watch(all, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(name, { client }) {
        const namespace = all.get(name);
        if (namespace === undefined || namespace.metadata?.deletionTimestamp !== undefined) return;
        if (namespace.metadata?.labels?.[label] !== undefined) return;
        try {
          await client.patch(namespaces, { name }, 'merge', { metadata: { labels: { [label]: value } } });
        } catch (error) {
          // gone since: the event that says so is on its way
          if (!isStatus(error, 'NotFound')) throw error;
        }
      },
    };
  },
});
`,
    'test/contract.test.ts': `|import { namespaces } from '@oarlock/api/resources';
|import { SharedInformers } from '@oarlock/client/informers';
|import { PluginHost } from '@oarlock/kernel/plugin-host';
|import { Informers } from '@oarlock/spi/client';
|import { Controllers } from '@oarlock/spi/controller';
|import { controllerContract } from '@oarlock/spi/controller.contract';
|import { FakeClock } from '@oarlock/testing/fake-clock';
|import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
|import { expect } from 'vitest';
|import plugin from '../src/plugin.ts';

const label = 'example.com/team';
const namespace = (name: string, labels = {}) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
  status: { phase: 'Active' },
});
const labels = (api: MemoryApi) =>
  Object.fromEntries(api.objects(namespaces).map(({ metadata }) => [metadata?.name, metadata?.labels?.[label]]));
const begin = (api: MemoryApi) => void api.seed(namespaces, namespace('a'), namespace('b', { [label]: 'blue' }));

controllerContract('__ID__', {
  open() {
    const clock = new FakeClock();
    return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformers({ client, clock, random: sequence(7) }) };
  },
  create({ informers, clock }) {
    const host = new PluginHost({ clock }).provide(Informers, informers).place({ plugin, config: { label, value: 'none' } });
    const [controller] = host.get(Controllers);
    if (controller === undefined) throw new Error('the plugin was not created');
    return controller;
  },
  scenarios: [
    {
      title: 'the label where there was none',
      steps: [begin],
      holds: (api) => expect(labels(api)).toEqual({ a: 'none', b: 'blue' }),
    },
    {
      title: 'a label that somebody takes away',
      steps: [
        begin,
        async (api) => void (await api.client().patch(namespaces, { name: 'b' }, 'merge', { metadata: { labels: { [label]: null } } })),
      ],
      holds: (api) => expect(labels(api)).toEqual({ a: 'none', b: 'none' }),
    },
  ],
});
`,
  },
};

export const role: PluginTemplate = {
  devDependencies: ['@oarlock/testing'],
  config: '{ everySeconds: 30 }',
  summary: 'Writes a line to the log now and then, to show that the process is alive.',
  keys: ['| `everySeconds` | `60` | time between two lines |'],
  tests: 'The role contract on a simulated clock; that the lines come.',
  files: {
    'src/heartbeat.ts': `|import { once, EventEmitter } from 'node:events';
|import type { Clock, Timer } from '@oarlock/kernel/clock';
|import type { Lifecycle } from '@oarlock/kernel/plugin';
|import type { Health, Role } from '@oarlock/spi/role';

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly everyMs: number;
  beat(count: number): void;
}

/** Calls \`beat\` in a steady rhythm while it runs. */
export class Heartbeat implements Role, Lifecycle {
  readonly name = '__ID__';
  readonly #options: HeartbeatOptions;
  readonly #events = new EventEmitter();
  #timer: Timer | undefined;
  #beats = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#arm();
    this.#events.emit('started');
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    // to those who wait to be told that it is ready; without a listener an EventEmitter throws it
    if (this.#events.listenerCount('error') > 0) this.#events.emit('error', new Error(\`\${this.name} was stopped\`));
  }

  health(): Health {
    return this.#timer === undefined ? { healthy: false, because: 'it does not run' } : { healthy: true };
  }

  async ready(signal?: AbortSignal): Promise<void> {
    if (this.#timer === undefined) await once(this.#events, 'started', { ...(signal && { signal }) });
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.everyMs, () => {
      this.#arm();
      this.#options.beat(++this.#beats);
    });
  }
}
`,
    'src/plugin.ts': `|import { Roles } from '@oarlock/spi/role';
|import { z } from 'zod';
|import { Heartbeat } from './heartbeat.ts';

/** Writes a line to the log now and then. */
export default Roles.plugin({
  id: '__ID__',
  config: z.strictObject({ everySeconds: z.number().min(1).max(86_400).default(60) }),
  create: ({ config }, { clock, log }) =>
    new Heartbeat({ clock, everyMs: config.everySeconds * 1000, beat: (count) => log.info({ count }, 'alive') }),
});
`,
    'test/contract.test.ts': `|import { roleContract } from '@oarlock/spi/role.contract';
|import { FakeClock } from '@oarlock/testing/fake-clock';
|import { expect, it } from 'vitest';
|import { Heartbeat } from '../src/heartbeat.ts';

roleContract('__ID__', () => {
  const clock = new FakeClock();
  const role = new Heartbeat({ clock, everyMs: 1000, beat: () => {} });
  return { role, settle: () => clock.settle(), held: () => ({ timers: clock.pending }), dispose: () => role.stop() };
});

it('beats while it runs, and not afterwards', async () => {
  const clock = new FakeClock();
  const beats: number[] = [];
  const role = new Heartbeat({ clock, everyMs: 1000, beat: (count) => beats.push(count) });
  await role.start(new AbortController().signal);
  await clock.advance(3500);
  await role.stop();
  await clock.advance(3500);
  expect(beats).toEqual([1, 2, 3]);
});
`,
  },
};
