import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { everyCombination, Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import { until, untilValue } from '../harness/until.ts';
import { documentedRows, FaultResults } from './support/fault-results.ts';
import {
  alone,
  configMap,
  core,
  fixture,
  inHost,
  specOf,
  subjects,
  together,
  type Context,
  type Subject,
} from './support/fault-subjects.ts';

interface PluginHealth {
  readonly name: string;
  readonly healthy: boolean;
  readonly reason?: string;
  readonly faults: Readonly<Record<'error' | 'deadline' | 'late' | 'ended', number>>;
}

const machine = Machine.use();
let cluster: Cluster;
let switches: string;
let triggers = 0;

beforeAll(async () => {
  switches = machine.path('switches');
  await mkdir(switches, { recursive: true });
  cluster = await machine.cluster({ spec: specOf(together, switches) });
});

const clusters = new Map<Subject, Promise<Cluster>>();
/** Returns the cluster in which a plugin runs. */
function clusterOf(subject: Subject): Promise<Cluster> | Cluster {
  if (!alone.includes(subject)) return cluster;
  let own = clusters.get(subject);
  if (own === undefined) {
    const spec = { ...specOf([subject], switches), roles: ['apiserver', 'controllers'], storage: 'storage-memory' } as ClusterSpec;
    clusters.set(subject, (own = machine.cluster({ spec })));
  }
  return own;
}

const results = new FaultResults(subjects.map(({ name }) => name));
afterAll(() => (everyCombination ? results.publish() : undefined));

const turn = (name: string, fault: string) => writeFile(join(switches, name), fault);
const clear = (name: string) => rm(join(switches, name), { force: true });
const contextOf = async (subject: Subject): Promise<Context> => ({
  api: (await clusterOf(subject)).api,
  switches,
  round: `r${++triggers}`,
});

async function healthOf(subject: Subject): Promise<PluginHealth> {
  const { name } = subject;
  const { api } = await clusterOf(subject);
  const { plugins } = await api.get<{ readonly plugins: readonly PluginHealth[] }>('/oarlock/v1/plugins');
  const found = plugins.find((plugin) => plugin.name === name);
  if (found === undefined) throw new Error(`${name} is not listed`);
  return found;
}
const whenCounted = (subject: Subject, kind: keyof PluginHealth['faults'], before: PluginHealth) =>
  untilValue(
    `a fault of kind ${kind} is counted for ${subject.name}`,
    () => healthOf(subject),
    ({ faults }) => faults[kind] > before.faults[kind],
  );

/**
 * Triggers the plugin until the caller gets the expected answer. On a busy machine a call of another plugin, which runs for the same request, may also
 * miss its deadline of a second.
 */
const trigger = (subject: Subject, context: Context, expected?: RegExp) =>
  untilValue(
    `${subject.name} gives the expected answer`,
    () => subject.trigger(context),
    (answer) => (expected === undefined ? !answer.startsWith('5') : expected.test(answer)),
  );

/** Triggers the plugin once more, without a fault, and waits for its work. */
async function expectWorks(subject: Subject): Promise<void> {
  const context = await contextOf(subject);
  await trigger(subject, context);
  await subject.done?.(context);
}

/** Filters are synchronous: a promise that they return is no status. */
const asynchronous = subjects.filter(({ name }) => name !== 'scheduling-filter');
const isolated = subjects.filter((subject) => !inHost.includes(subject));

/** `npm test` tests a part of the slots, because all of them take minutes. */
const inTests = new Set([
  'admission-host',
  'authz-host',
  'controller-host',
  'scheduling-reserve',
  'storage',
  'admission-thread',
  'controller-process',
]);
const chosen = (all: readonly Subject[]) => (everyCombination ? all : all.filter(({ name }) => inTests.has(name)));

describe('a plugin that hangs', () => {
  it.concurrent.each(chosen(asynchronous))('is abandoned at the deadline, and $name works afterwards', async (subject) => {
    const context = await contextOf(subject);
    const before = await healthOf(subject);
    await turn(subject.name, 'hang');
    const answer = await trigger(subject, context, subject.rejection);
    const { healthy, reason } = await whenCounted(subject, 'deadline', before);
    expect({ healthy, reason }).toEqual({
      healthy: false,
      reason: expect.stringMatching(/did not answer within 1000 ms|returned a promise/),
    });
    await clear(subject.name);
    await subject.done?.(context);
    await expectWorks(subject);
    results.note('plugin that hangs in a call', subject.name, { answer, counted: 'deadline', reason });
  });
});

describe('a plugin that throws', () => {
  it.concurrent.each(chosen(subjects))('fails alone, and $name works afterwards', async (subject) => {
    const context = await contextOf(subject);
    const before = await healthOf(subject);
    await turn(subject.name, 'throw');
    const answer = await trigger(subject, context, subject.rejection && new RegExp(`^50\\d .*${subject.name} throws`));
    const isCounted = subject.name !== 'scheduling-filter';
    if (isCounted) await whenCounted(subject, 'error', before);
    await clear(subject.name);
    await subject.done?.(context);
    await expectWorks(subject);
    results.note('plugin that throws in a call', subject.name, { answer, ...(isCounted && { counted: 'error' }) });
  });
});

describe.each(['reject late', 'throw late'])('a plugin with one missing await or a timer that fails: %s', (fault) => {
  it.concurrent.each(chosen(inHost))('does not end the process, and the error is attributed to $name', async (subject) => {
    const context = await contextOf(subject);
    let answer = '';
    // on a busy machine a missed deadline may be the latest fault instead
    const health = await untilValue(
      'the late error is the reason',
      async () => {
        const before = await healthOf(subject);
        await turn(subject.name, fault);
        answer = await trigger(subject, context);
        return whenCounted(subject, 'late', before);
      },
      ({ reason }) => reason?.includes(`${subject.name} ${fault === 'reject late' ? 'rejects' : 'throws'} late`) === true,
    );
    await subject.done?.(context);
    await expectWorks(subject);
    results.note(`plugin that ${fault === 'reject late' ? 'rejects' : 'throws'} late, in the process of the cluster`, subject.name, {
      answer,
      counted: 'late',
      reason: health.reason,
    });
  });
});

const titles = {
  loop: 'plugin that loops, in a thread or process of its own',
  leak: 'plugin that leaks, in a thread or process of its own',
  'throw late': 'plugin that throws late, in a thread or process of its own',
};
describe.each(['loop', 'leak', 'throw late'] as const)('a plugin in a thread or process of its own: %s', (fault) => {
  it.concurrent.each(chosen(isolated))('is started again, and $name works afterwards', async (subject) => {
    const context = await contextOf(subject);
    const before = await healthOf(subject);
    await turn(subject.name, fault);
    // the request that ends the thread fails, unless the error is late
    const answer = await trigger(
      subject,
      context,
      fault !== 'throw late' && subject.rejection ? new RegExp(`^500 .*"${subject.name}" failed`) : undefined,
    );
    const health = await whenCounted(subject, 'ended', before);
    await clear(subject.name);
    await subject.done?.(context);
    await expectWorks(subject);
    results.note(titles[fault], subject.name, { answer, counted: 'ended', reason: health.reason });
  });
});

describe('docs/plugin-isolation.md', () => {
  const names = (all: readonly Subject[]) => all.map(({ name }) => name);

  it.skipIf(process.env['OARLOCK_WRITE_MATRIX'] === '1')('has a row for each plugin and fault', async () => {
    const rows = await documentedRows();
    const inThread = 'in a thread or process of its own';
    expect(Object.fromEntries([...rows].filter(([header]) => header.startsWith('plugin that ')))).toEqual({
      'plugin that hangs in a call': names(asynchronous),
      'plugin that throws in a call': names(subjects),
      'plugin that rejects late, in the process of the cluster': names(inHost),
      'plugin that throws late, in the process of the cluster': names(inHost),
      'plugin that loops, in the process of the cluster': names(inHost),
      'plugin that leaks, in the process of the cluster': names(inHost),
      [`plugin that loops, ${inThread}`]: names(isolated),
      [`plugin that leaks, ${inThread}`]: names(isolated),
      [`plugin that throws late, ${inThread}`]: names(isolated),
    });
  });
});

describe('health of plugins', () => {
  it('is in `oarlock status`, /readyz, the metrics and Events, and does not make the server unready', async () => {
    const subject = together[0] as Subject;
    await turn('admission-host', 'reject late');
    const before = await healthOf(subject);
    await subject.trigger(await contextOf(subject));
    await whenCounted(subject, 'late', before);
    const { code, stdout } = await runOarlock(['status', '--data-dir', cluster.dataDir]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^plugin admission-host: unhealthy: admission-host rejects late/m),
    });
    const { status, body } = await cluster.api.call('GET', '/readyz?verbose');
    expect({ status, body }).toEqual({ status: 200, body: expect.stringContaining('[-]plugin-admission-host unhealthy, not counted') });
    expect((await cluster.api.call('GET', '/metrics')).body).toMatch(
      /^oarlock_plugin_healthy\{plugin="admission-host",slot="admission\/v1"\} 0$/m,
    );
    await cluster.api.until<Item & { readonly reason: string; readonly message: string }>(
      'there is an Event',
      '/api/v1/namespaces/kube-system/events',
      (events) => events.some(({ reason, message }) => reason === 'PluginUnhealthy' && message.includes('admission-host')),
    );
  });
});

describe('SIGTERM', () => {
  it('ends a cluster whose plugins hang in every slot', async () => {
    const runtime = together.find(({ name }) => name === 'runtime') as Subject;
    for (const subject of together.filter((each) => asynchronous.includes(each))) {
      await turn(subject.name, 'hang');
      // nothing waits for the answer: the calls are in flight when the signal arrives
      void subject.trigger(await contextOf(subject)).catch(() => '');
    }
    await until('calls hang', async () => (await healthOf(runtime)).faults.deadline > 0);
    cluster.daemon.signal('SIGTERM');
    await cluster.daemon.exit;
  });

  it('ends a cluster while a plugin hangs in start, and one while a plugin hangs in stop', async () => {
    const spec = {
      roles: ['apiserver'],
      storage: 'storage-memory',
      audit: [{ use: fixture('stop'), config: { switches, name: 'stop' } }],
    } as ClusterSpec;
    await turn('stop-start', 'hang');
    const starting = await machine.prepare({ spec });
    const daemon = starting.launch();
    await until('the process has a log', () => existsSync(join(starting.dataDir, 'oarlock.log')));
    daemon.signal('SIGTERM');
    await daemon.exit;
    await clear('stop-start');
    const stopping = await machine.cluster({ spec });
    await turn('stop', 'hang');
    stopping.daemon.signal('SIGTERM');
    await stopping.daemon.exit;
    expect(stopping.daemon.output).toMatch(/audit-stop (did not stop cleanly: stop did not return within 3000 ms|is still stopping)/);
  });

  it.each(everyCombination ? ['loop', 'loop late'] : ['loop late'])(
    'is not needed for a plugin in the host, fault %s: the watchdog ends the process and names the plugin',
    async (fault) => {
      const looping = await machine.cluster({
        spec: {
          roles: ['apiserver'],
          storage: 'storage-memory',
          admission: [{ use: fixture('admission'), name: 'admission-loop', config: { switches, name: 'admission-loop' } }],
        } as ClusterSpec,
      });
      await turn('admission-loop', fault);
      const request = looping.api.call('POST', `${core}/configmaps`, { body: configMap('admission-loop') }).catch(() => undefined);
      expect(await looping.daemon.exit).toBe(137);
      await request;
      expect(looping.daemon.output).toMatch(/plugin "admission-loop" has blocked the process for \d+ s; the process ends/);
    },
  );
});
