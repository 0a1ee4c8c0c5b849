import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Item, PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { everyCombination, Machine } from '../harness/machine.ts';
import { root, runOarlock } from '../harness/oarlock.ts';
import { until, untilValue } from '../harness/until.ts';
import { FaultResults } from './support/fault-results.ts';

const fixture = (name: string) => join(root, 'packages', 'testing', 'test', 'support', 'faulty-plugins', `${name}.ts`);
const core = '/api/v1/namespaces/default';

interface PluginHealth {
  readonly name: string;
  readonly healthy: boolean;
  readonly reason?: string;
  readonly faults: Readonly<Record<'error' | 'deadline' | 'late' | 'ended', number>>;
}

/** A plugin under test: how a request or object reaches it, and how the effect of a working plugin is seen. */
interface Subject {
  /** Name of the placement and of the switch. */
  readonly name: string;
  readonly file: string;
  readonly section: string;
  readonly options?: Readonly<Record<string, unknown>>;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Makes the cluster call the plugin. Returns the answer to the caller, for slots that requests wait for. */
  trigger(context: Context): Promise<string>;
  /** The answer to `trigger` while the plugin hangs, for slots that requests wait for. */
  readonly rejection?: RegExp;
  /** Resolves when the work of the plugin for the last `trigger` is done. */
  done?(context: Context): Promise<unknown>;
}
interface Context {
  readonly api: Api;
  readonly switches: string;
  readonly round: string;
}

const statusOf = ({ status, body }: { readonly status: number; readonly body: string }): string =>
  status < 300 ? 'ok' : `${status} ${(JSON.parse(body) as { message?: string }).message ?? ''}`;
const configMap = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, annotations },
});
const podOf = (name: string, more: Readonly<Record<string, unknown>> = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'main', image: 'any' }], terminationGracePeriodSeconds: 0, ...more },
});

const volumeOf = (driver: string) => ({
  containers: [{ name: 'main', image: 'any', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
  volumes: [{ name: 'data', csi: { driver } }],
});

/** Creates an object again. */
async function recreate(api: Api, resource: string, body: { readonly metadata: { readonly name: string } }): Promise<string> {
  const { name } = body.metadata;
  await until(`${name} of the last round is gone`, async () => {
    const { status } = await api.call('DELETE', `${core}/${resource}/${name}?gracePeriodSeconds=0`);
    return status === 404;
  });
  return statusOf(await api.call('POST', `${core}/${resource}`, { body }));
}

/** Sets the annotation `wanted` of a ConfigMap, which is created if it does not exist. */
async function annotate(name: string, { api, round }: Context): Promise<string> {
  const patched = await api.call('PATCH', `${core}/configmaps/${name}`, {
    body: { metadata: { annotations: { wanted: round } } },
    headers: { 'content-type': 'application/merge-patch+json' },
  });
  if (patched.status !== 404) return statusOf(patched);
  return statusOf(await api.call('POST', `${core}/configmaps`, { body: configMap(name, { wanted: round }) }));
}

const podRuns =
  (name: string) =>
  ({ api }: Context) =>
    untilValue(
      `${name} runs`,
      () => api.get<PodItem>(`${core}/pods/${name}`),
      ({ status }) => status.phase === 'Running',
    );

const scheduling = (point: string): Subject => ({
  name: `scheduling-${point.toLowerCase()}`,
  file: 'scheduling',
  section: 'scheduling',
  config: { point },
  trigger: ({ api }) => recreate(api, 'pods', podOf(`scheduling-${point.toLowerCase()}`)),
  done: podRuns(`scheduling-${point.toLowerCase()}`),
});

const controller = (placement: string): Subject => ({
  name: `controller-${placement}`,
  file: 'controller',
  section: 'controllers',
  options: { placement },
  trigger: (context) => annotate(`controller-${placement}`, context),
  done: ({ api, round }) =>
    untilValue(
      'the controller reconciled',
      () => api.get<Item>(`${core}/configmaps/controller-${placement}`),
      ({ metadata }) => metadata.annotations?.['reconciled'] === round,
    ),
});

const admission = (placement: string): Subject => ({
  name: `admission-${placement}`,
  file: 'admission',
  section: 'admission',
  options: { placement },
  trigger: ({ api }) => recreate(api, 'configmaps', configMap(`admission-${placement}`)),
  rejection: new RegExp(`^500 Internal error occurred: admission plugin "admission-${placement}" failed: it did not answer within 1000 ms`),
});

const authn = (placement: string): Subject => ({
  name: `authn-${placement}`,
  file: 'authn',
  section: 'authn',
  options: { placement },
  trigger: async ({ api }) => {
    const { status } = await api.call('GET', '/version', { headers: { authorization: `Bearer authn-${placement}` } });
    return String(status);
  },
});

const authz = (placement: string): Subject => ({
  name: `authz-${placement}`,
  file: 'authz',
  section: 'authz',
  options: { placement },
  trigger: async ({ api }) => statusOf(await api.call('GET', '/api', { headers: { 'impersonate-user': `authz-${placement}` } })),
  rejection: new RegExp(`^500 Internal error occurred: authorization plugin "authz-${placement}" failed: it did not answer within 1000 ms`),
});

const audit = (placement: string): Subject => ({
  name: `audit-${placement}`,
  file: 'audit',
  section: 'audit',
  options: { placement },
  // a sink that fails does not fail requests
  trigger: async ({ api }) => statusOf(await api.call('POST', `${core}/configmaps?dryRun=All`, { body: configMap(`audit-${placement}`) })),
});

/** A plugin that takes part in the start of a pod of its name. */
const onNode = (name: string): Subject => ({
  name,
  file: name,
  section: name,
  trigger: ({ api }) => recreate(api, 'pods', podOf(name)),
  done: podRuns(name),
});

/** A plugin that receives the Services of the cluster. */
const applied = (name: 'proxy' | 'dns'): Subject => ({
  name,
  file: name,
  section: name,
  trigger: ({ api, round }) =>
    recreate(api, 'services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `${name}-${round}` },
      spec: { ports: [{ port: 80 }] },
    } as never),
  done: ({ switches, round }) =>
    untilValue(
      `${name} has applied the Service`,
      async () => (existsSync(join(switches, `${name}-applied`)) ? readFile(join(switches, `${name}-applied`), 'utf8') : ''),
      (text) => text.includes(`${name}-${round}`),
    ),
});

const subjects: readonly Subject[] = [
  ...['host', 'thread', 'process'].flatMap((placement) => [
    admission(placement),
    controller(placement),
    audit(placement),
    authn(placement),
    authz(placement),
  ]),
  ...['filter', 'reserve', 'permit', 'preBind'].map(scheduling),
  {
    name: 'storage',
    file: 'storage',
    section: 'storage',
    trigger: (context) => annotate('storage', context),
    rejection: /^50\d .*plugin "storage", commit: it did not answer within 1000 ms/,
  },
  {
    name: 'runtime',
    file: 'runtime',
    section: 'runtimes',
    trigger: ({ api }) => recreate(api, 'pods', podOf('runtime')),
    done: podRuns('runtime'),
  },
  {
    name: 'cloud',
    file: 'cloud',
    section: 'cloud',
    trigger: ({ api }) =>
      recreate(api, 'services', {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'cloud' },
        spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
      } as never),
    done: ({ api }) =>
      untilValue(
        'the load balancer has its address',
        () => api.get<{ readonly status: { readonly loadBalancer?: { readonly ingress?: unknown[] } } }>(`${core}/services/cloud`),
        ({ status }) => status.loadBalancer?.ingress !== undefined,
      ),
  },
  ...['network', 'policy'].map((name): Subject => onNode(name)),
  {
    name: 'volume',
    file: 'volume',
    section: 'volumes',
    trigger: ({ api }) => recreate(api, 'pods', podOf('volume', volumeOf('volume'))),
    done: podRuns('volume'),
  },
  applied('proxy'),
  applied('dns'),
];

/** The placements of all subjects, in the sections of a cluster.yaml. */
function specOf(switches: string): ClusterSpec {
  const place = ({ name, file, options, config }: Subject) => ({
    use: fixture(file),
    name,
    deadlineMs: 1_000,
    ...options,
    config: { switches, name, ...config },
  });
  const single = new Set(['storage', 'cloud', 'network', 'policy', 'proxy', 'dns']);
  const sections: Record<string, unknown> = {};
  for (const subject of subjects) {
    const { section } = subject;
    if (single.has(section)) sections[section] = place(subject);
    else sections[section] = [...((sections[section] as unknown[] | undefined) ?? []), place(subject)];
  }
  return {
    ...sections,
    authn: [...(sections['authn'] as never[]), 'authn-client-certificate', 'authn-service-account'],
    authz: [...(sections['authz'] as never[]), 'authz-masters', 'authz-node', 'authz-rbac'],
    settings: { kubelet: { port: 0 } },
  } as ClusterSpec;
}

const machine = Machine.use();
let cluster: Cluster;
let switches: string;
let triggers = 0;

beforeAll(async () => {
  switches = machine.path('switches');
  await mkdir(switches, { recursive: true });
  cluster = await machine.cluster({ spec: specOf(switches) });
});

const results = new FaultResults(subjects.map(({ name }) => name));
afterAll(() => (everyCombination ? results.publish() : undefined));

const turn = (name: string, fault: string) => writeFile(join(switches, name), fault);
const clear = (name: string) => rm(join(switches, name), { force: true });
const contextOf = (): Context => ({ api: cluster.api, switches, round: `r${++triggers}` });

async function healthOf(name: string): Promise<PluginHealth> {
  const { plugins } = await cluster.api.get<{ readonly plugins: readonly PluginHealth[] }>('/oarlock/v1/plugins');
  const found = plugins.find((plugin) => plugin.name === name);
  if (found === undefined) throw new Error(`${name} is not listed`);
  return found;
}
const whenCounted = (name: string, kind: keyof PluginHealth['faults'], before: PluginHealth) =>
  untilValue(
    `a fault of kind ${kind} is counted for ${name}`,
    () => healthOf(name),
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
  const context = contextOf();
  await trigger(subject, context);
  await subject.done?.(context);
}

/** Filters are synchronous: a promise that they return is no status. */
const asynchronous = subjects.filter(({ name }) => name !== 'scheduling-filter');
const inHost = subjects.filter(({ options }) => options?.['placement'] !== 'thread' && options?.['placement'] !== 'process');
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
    const context = contextOf();
    const before = await healthOf(subject.name);
    await turn(subject.name, 'hang');
    const answer = await trigger(subject, context, subject.rejection);
    const { healthy, reason } = await whenCounted(subject.name, 'deadline', before);
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
    const context = contextOf();
    const before = await healthOf(subject.name);
    await turn(subject.name, 'throw');
    const answer = await trigger(subject, context, subject.rejection && new RegExp(`^50\\d .*${subject.name} throws`));
    const isCounted = subject.name !== 'scheduling-filter';
    if (isCounted) await whenCounted(subject.name, 'error', before);
    await clear(subject.name);
    await subject.done?.(context);
    await expectWorks(subject);
    results.note('plugin that throws in a call', subject.name, { answer, ...(isCounted && { counted: 'error' }) });
  });
});

describe.each(['reject late', 'throw late'])('a plugin with one missing await or a timer that fails: %s', (fault) => {
  it.concurrent.each(chosen(inHost))('does not end the process, and the error is attributed to $name', async (subject) => {
    const context = contextOf();
    let answer = '';
    // on a busy machine a missed deadline may be the latest fault instead
    const health = await untilValue(
      'the late error is the reason',
      async () => {
        const before = await healthOf(subject.name);
        await turn(subject.name, fault);
        answer = await trigger(subject, context);
        return whenCounted(subject.name, 'late', before);
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
    const context = contextOf();
    const before = await healthOf(subject.name);
    await turn(subject.name, fault);
    // the request that ends the thread fails, unless the error is late
    const answer = await trigger(
      subject,
      context,
      fault !== 'throw late' && subject.rejection ? new RegExp(`^500 .*"${subject.name}" failed`) : undefined,
    );
    const health = await whenCounted(subject.name, 'ended', before);
    await clear(subject.name);
    await subject.done?.(context);
    await expectWorks(subject);
    results.note(titles[fault], subject.name, { answer, counted: 'ended', reason: health.reason });
  });
});

describe('health of plugins', () => {
  it('is in `oarlock status`, /readyz, the metrics and Events, and does not make the server unready', async () => {
    await turn('admission-host', 'reject late');
    const before = await healthOf('admission-host');
    await admission('host').trigger(contextOf());
    await whenCounted('admission-host', 'late', before);
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
    for (const subject of asynchronous) {
      await turn(subject.name, 'hang');
      // nothing waits for the answer: the calls are in flight when the signal arrives
      void subject.trigger(contextOf()).catch(() => '');
    }
    await until('calls hang', async () => (await healthOf('runtime')).faults.deadline > 0);
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
