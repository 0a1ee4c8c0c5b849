import { isStatus } from '@oarlock/api/status';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FlowControlConfigurationController } from '../../src/flowcontrol/configuration-controller.ts';
import { mandatoryFlowSchemas, suggestedPriorityLevels } from '../../src/flowcontrol/bootstrap-configuration.ts';
import { flowControlDumps } from '../../src/flowcontrol/debug-dumps.ts';
import { registerFlowControlMetrics } from '../../src/flowcontrol/flowcontrol-metrics.ts';
import { PriorityAndFairness, type FlowControlRequest, type ExecutionSeat } from '../../src/flowcontrol/priority-and-fairness.ts';
import { estimateListWork, fairAllocation } from '../../src/flowcontrol/work-estimator.ts';
import { shuffleShard, flowHash } from '../../src/flowcontrol/shuffle-shard.ts';
import { requestInfo } from '../../src/http/request-info.ts';
import { parseTarget } from '../../src/http/path.ts';
import { settlePromises, TestClock, TestServer } from '../support/pipeline-fixture.ts';

const authenticated = 'system:authenticated';
const requestOf = (
  user: string,
  groups: readonly string[],
  path = '/api/v1/namespaces/a/pods',
  method = 'GET',
  seats = 1,
): FlowControlRequest => ({
  info: requestInfo(method, parseTarget(path)),
  identity: { name: user, groups: [...groups, authenticated] },
  seats,
  signal: () => new AbortController().signal,
});
const allUsersRules = mandatoryFlowSchemas.flatMap(({ spec }) => spec?.rules ?? []);
const one = (limit: number, queuing?: { queues: number; handSize: number; queueLengthLimit: number }, more: object = {}) => {
  const clock = new TestClock();
  const fairness = new PriorityAndFairness(limit, 1_000, clock);
  fairness.configure(
    [
      {
        metadata: { name: 'all' },
        spec: {
          matchingPrecedence: 5,
          priorityLevelConfiguration: { name: 'own' },
          distinguisherMethod: { type: 'ByUser' },
          rules: allUsersRules,
        },
      },
    ],
    [
      {
        metadata: { name: 'own' },
        spec: {
          type: 'Limited',
          limited: {
            nominalConcurrencyShares: 1000,
            limitResponse: queuing === undefined ? { type: 'Reject' } : { type: 'Queue', queuing },
            ...more,
          },
        },
      },
    ],
  );
  const level = [...fairness.levels].find(({ name }) => name === 'own');
  level?.setCurrentLimit(limit);
  return { clock, fairness, level };
};
const isRejected = (enter: () => unknown): boolean => {
  try {
    enter();
    return false;
  } catch (error) {
    return isStatus(error, 'TooManyRequests');
  }
};

describe('API priority and fairness: changed FlowSchemas', () => {
  it('apply to users whose requests were classified before', () => {
    const { fairness } = one(10);
    const request = requestOf('jane', []);
    const schemas = () => [...fairness.counts].filter(({ executing }) => executing > 0).map(({ schema }) => schema);
    const before = fairness.acquire(request);
    expect(schemas()).toEqual(['all']);
    if (!(before instanceof Promise)) before.release();
    fairness.configure([], []);
    const after = fairness.acquire(request);
    expect(schemas()).toEqual(['catch-all']);
    if (!(after instanceof Promise)) after.release();
  });
});

describe('API priority and fairness: classification of requests', () => {
  const fairness = new PriorityAndFairness(600, 1_000, new TestClock());
  const schemaOf = (entering: FlowControlRequest): string => {
    const before = new Map([...fairness.counts].map((counts) => [counts.schema, counts.dispatched]));
    const place = fairness.acquire(entering);
    if (place instanceof Promise) throw new Error('the request was queued');
    place.release();
    return [...fairness.counts].find((counts) => counts.dispatched !== before.get(counts.schema))?.schema ?? '';
  };
  it.each<[string, FlowControlRequest]>([
    ['exempt', requestOf('admin', ['system:masters'])],
    ['probes', requestOf('x', [], '/healthz')],
    ['system-node-high', requestOf('system:node:a', ['system:nodes'], '/api/v1/nodes/a/status', 'PATCH')],
    [
      'system-node-high',
      requestOf('system:node:a', ['system:nodes'], '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a', 'PUT'),
    ],
    ['system-nodes', requestOf('system:node:a', ['system:nodes'])],
    [
      'system-leader-election',
      requestOf('system:kube-scheduler', [], '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/s', 'PUT'),
    ],
    ['kube-scheduler', requestOf('system:kube-scheduler', [])],
    ['kube-controller-manager', requestOf('system:kube-controller-manager', [])],
    [
      'kube-system-service-accounts',
      requestOf(
        'system:serviceaccount:kube-system:x',
        ['system:serviceaccounts'],
        '/apis/coordination.k8s.io/v1/namespaces/a/leases/s',
        'PUT',
      ),
    ],
    [
      'kube-system-service-accounts',
      requestOf('system:serviceaccount:kube-system:endpoint-controller', [], '/api/v1/namespaces/a/endpoints/e', 'PUT'),
    ],
    ['kube-system-service-accounts', requestOf('system:serviceaccount:kube-system:x', ['system:serviceaccounts'])],
    ['service-accounts', requestOf('system:serviceaccount:a:x', ['system:serviceaccounts'])],
    ['global-default', requestOf('jane', ['devs'])],
    ['global-default', requestOf('jane', ['devs'], '/version')],
  ])('%s', (name, entering) => {
    expect(schemaOf(entering)).toBe(name);
  });

  it('seats are allocated by the shares of the levels', () => {
    const seats = Object.fromEntries([...fairness.levels].map(({ name, nominalLimit: nominal }) => [name, nominal]));
    expect(seats).toEqual({
      exempt: 0,
      'catch-all': 13,
      system: 74,
      'node-high': 98,
      'leader-election': 25,
      'workload-high': 98,
      'workload-low': 245,
      'global-default': 49,
    });
  });
});

describe('a priority level', () => {
  it('of type Reject rejects requests beyond its seats', () => {
    const { fairness } = one(2);
    const places = [1, 2].map(() => fairness.acquire(requestOf('a', [])) as ExecutionSeat);
    expect(isRejected(() => fairness.acquire(requestOf('a', [])))).toBe(true);
    places[0]?.release();
    places[0]?.release();
    expect(isRejected(() => fairness.acquire(requestOf('a', [])))).toBe(false);
    expect(isRejected(() => fairness.acquire(requestOf('a', [])))).toBe(true);
  });

  it('executes a request alone that needs more seats than its limit', () => {
    const { fairness } = one(2);
    const wide = fairness.acquire(requestOf('a', [], undefined, 'GET', 10)) as ExecutionSeat;
    expect(isRejected(() => fairness.acquire(requestOf('a', [])))).toBe(true);
    wide.release();
    (fairness.acquire(requestOf('a', [])) as ExecutionSeat).release();
  });

  it('serves a flow with few requests beside a flow with many', async () => {
    const { fairness } = one(1, { queues: 64, handSize: 4, queueLengthLimit: 100 });
    const order: string[] = [];
    const first = fairness.acquire(requestOf('loud', [])) as ExecutionSeat;
    const come = async (user: string) => {
      const place = await fairness.acquire(requestOf(user, []));
      order.push(user);
      place.release();
    };
    const loud = Array.from({ length: 40 }, () => come('loud'));
    const quiet = come('quiet');
    first.release();
    await Promise.all([...loud, quiet]);
    expect(order).toHaveLength(41);
    expect(order.indexOf('quiet')).toBeLessThan(8);
  });

  it('rejects requests on a full queue, after the maximum wait, and when the client disconnects', async () => {
    const { fairness, clock, level } = one(1, { queues: 1, handSize: 1, queueLengthLimit: 2 });
    const held = fairness.acquire(requestOf('a', [])) as ExecutionSeat;
    const abort = new AbortController();
    const late = Promise.resolve(fairness.acquire(requestOf('a', []))).catch((error: unknown) => isStatus(error, 'TooManyRequests'));
    const gone = Promise.resolve(fairness.acquire({ ...requestOf('b', []), signal: () => abort.signal })).catch(() => 'gone');
    expect(isRejected(() => fairness.acquire(requestOf('c', [])))).toBe(true);
    abort.abort();
    expect(await gone).toBe('gone');
    await clock.advance(1_001);
    expect(await late).toBe(true);
    held.release();
    expect([level?.seatsInUse, level?.queuedRequests]).toEqual([0, 0]);
    const [counts] = [...fairness.counts].filter(({ schema }) => schema === 'all');
    expect(Object.fromEntries(counts?.rejected ?? [])).toEqual({ 'queue-full': 1, cancelled: 1, 'time-out': 1 });
  });

  it('borrows seats that other levels lend, and returns them', async () => {
    const clock = new TestClock();
    const fairness = new PriorityAndFairness(100, 10_000, clock);
    const limit = (name: string) => [...fairness.levels].find((level) => level.name === name)?.currentLimit ?? 0;
    const before = limit('global-default');
    const places: (ExecutionSeat | Promise<ExecutionSeat>)[] = [];
    for (let i = 0; i < 40; i += 1) places.push(fairness.acquire(requestOf('jane', [])));
    await clock.advance(9_000);
    fairness.adjustConcurrencyLimits();
    await settlePromises();
    expect(limit('global-default')).toBeGreaterThan(before + 20);
    for (const place of await Promise.all(places)) place.release();
    const busy = Array.from({ length: 30 }, () => fairness.acquire(requestOf('system:serviceaccount:a:x', ['system:serviceaccounts'])));
    await clock.advance(5_000);
    fairness.adjustConcurrencyLimits();
    expect(limit('workload-low')).toBeGreaterThanOrEqual(30);
    for (const place of await Promise.all(busy)) place.release();
  });

  it('does not borrow beyond its limit', () => {
    const { fairness, level } = one(10, undefined, { borrowingLimitPercent: 0 });
    for (let i = 0; i < 5; i += 1) fairness.adjustConcurrencyLimits();
    expect(level?.currentLimit).toBeLessThanOrEqual(level?.nominalLimit ?? 0);
  });
});

describe('seat allocation', () => {
  it('is proportional to the targets, within the bounds', () => {
    expect(
      fairAllocation(100, [
        { lowerBound: 10, upperBound: 20, target: 90 },
        { lowerBound: 5, upperBound: 1000, target: 30 },
        { lowerBound: 5, upperBound: 1000, target: 10 },
      ]),
    ).toEqual([20, 60, 20]);
    expect(fairAllocation(10, [{ lowerBound: 20, upperBound: 30, target: 1 }])).toEqual([20]);
  });
  it('estimates more seats for long lists', () => {
    expect([0, 100, 101, 5_000].map((count) => estimateListWork('list', {}, () => count))).toEqual([1, 1, 2, 10]);
    expect(estimateListWork('list', { limit: '150' }, () => 5_000)).toBe(2);
    expect(estimateListWork('watch', { resourceVersion: '7' }, () => 5_000)).toBe(1);
    // these watches begin with an event for each object
    expect([{}, { resourceVersion: '0' }].map((query) => estimateListWork('watch', query, () => 5_000))).toEqual([10, 10]);
    expect(estimateListWork('list', { fieldSelector: 'metadata.name=a' }, () => 5_000)).toBe(1);
    expect(estimateListWork('watch', { fieldSelector: 'metadata.name=a' }, () => 5_000)).toBe(1);
    expect(estimateListWork('watch', { sendInitialEvents: 'true' }, () => 5_000)).toBe(10);
  });
  it('shuffle sharding selects different queues, and rarely the same ones for two flows', () => {
    const hands = new Set<string>();
    for (let i = 0; i < 1_000; i += 1) {
      const hand = shuffleShard(flowHash(`flow-${i}`), 128, 6);
      expect(new Set(hand).size).toBe(6);
      expect(hand.every((card) => card >= 0 && card < 128)).toBe(true);
      hands.add([...hand].sort((a, b) => a - b).join());
    }
    expect(hands.size).toBeGreaterThan(995);
  });
});

describe('the configuration', () => {
  let server: TestServer;
  let fairness: PriorityAndFairness;
  let configuration: FlowControlConfigurationController;
  beforeEach(async () => {
    server = await TestServer.start();
    fairness = new PriorityAndFairness(600, 1_000, server.clock);
    configuration = new FlowControlConfigurationController({ pipeline: server.pipeline, fairness, clock: server.clock, log: silentLogger });
    await configuration.start();
  });
  afterEach(async () => {
    await configuration.stop();
    await server.stop();
  });
  const schemas = 'flowschemas.flowcontrol.apiserver.k8s.io';
  const levels = 'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io';
  const until = async (of: string, name: string, wanted: (object: FlowSchema | undefined) => boolean): Promise<FlowSchema | undefined> => {
    const watching = await server.watch(of, { fieldSelector: `metadata.name=${name}` });
    let object = (await server.list(of, { fieldSelector: `metadata.name=${name}` })).items[0]?.object as FlowSchema | undefined;
    while (!wanted(object)) {
      const frame = await watching.next();
      object = frame?.type === 'DELETED' ? undefined : (frame?.item.object as FlowSchema);
    }
    await watching.close();
    return object;
  };
  const dangling = (status: string) => (object: FlowSchema | undefined) =>
    object?.status?.conditions?.some((condition) => condition.type === 'Dangling' && condition.status === status) === true;
  const own = (level: string): FlowSchema => ({
    kind: 'FlowSchema',
    apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
    metadata: { name: 'mine' },
    spec: {
      matchingPrecedence: 50,
      priorityLevelConfiguration: { name: level },
      rules: [{ subjects: [{ kind: 'User', user: { name: 'me' } }], nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }] }],
    },
  });

  it('API priority and fairness should support FlowSchema API operations: creates the bootstrap objects of upstream', async () => {
    expect((await server.list(levels)).names).toEqual(
      ['catch-all', 'exempt', ...suggestedPriorityLevels.map(({ metadata }) => metadata?.name ?? '')].sort(),
    );
    expect((await server.list(schemas)).names).toHaveLength(11);
    const found = await until(schemas, 'global-default', dangling('False'));
    expect(found?.status?.conditions?.[0]).toMatchObject({
      reason: 'Found',
      message: 'This FlowSchema references the PriorityLevelConfiguration object named "global-default" and it exists',
    });
    const place = fairness.acquire(requestOf('jane', [])) as ExecutionSeat;
    expect(place.flowSchemaUid).toBe(found?.metadata?.uid);
    expect(place.priorityLevelUid).toBe((await server.get(levels, 'global-default')).metadata?.uid);
    place.release();
  });

  it('reports dangling FlowSchemas, which match no request', async () => {
    await server.create(schemas, own('nowhere'));
    expect((await until(schemas, 'mine', dangling('True')))?.status?.conditions?.[0]).toMatchObject({ reason: 'NotFound' });
    const place = fairness.acquire(requestOf('me', [], '/version')) as ExecutionSeat;
    expect(place.flowSchemaUid).toBe((await server.get(schemas, 'global-default')).metadata?.uid);
    place.release();
    await server.create<PriorityLevelConfiguration>(levels, {
      kind: 'PriorityLevelConfiguration',
      apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
      metadata: { name: 'nowhere' },
      ...{ spec: { type: 'Limited', limited: { limitResponse: { type: 'Reject' } } } },
    });
    const mine = await until(schemas, 'mine', dangling('False'));
    const next = fairness.acquire(requestOf('me', [], '/version')) as ExecutionSeat;
    expect(next.flowSchemaUid).toBe(mine?.metadata?.uid);
    next.release();
  });

  it('deletes objects of an earlier version that administrators have not taken over', async () => {
    const autoUpdate = 'apf.kubernetes.io/autoupdate-spec';
    const named = (name: string, value: string): FlowSchema => ({
      ...own('workload-low'),
      metadata: { name, annotations: { [autoUpdate]: value } },
    });
    await server.create(schemas, named('workload-leader-election', 'true'));
    await server.create(schemas, named('endpoint-controller', 'false'));
    await configuration.stop();
    configuration = new FlowControlConfigurationController({ pipeline: server.pipeline, fairness, clock: server.clock, log: silentLogger });
    await configuration.start();
    await until(schemas, 'workload-leader-election', (object) => object === undefined);
    expect((await server.list(schemas)).names).toContain('endpoint-controller');
  });

  it('restores mandatory objects', async () => {
    const { metadata } = await server.get(schemas, 'exempt');
    await server.remove(schemas, 'exempt');
    await until(schemas, 'exempt', (object) => object !== undefined && object.metadata?.uid !== metadata?.uid);
    await server.patch(schemas, 'catch-all', { spec: { matchingPrecedence: 9_000 } });
    await until(schemas, 'catch-all', (object) => object?.spec?.matchingPrecedence === 10_000);
    await server.remove(schemas, 'service-accounts');
    expect((await server.list(schemas)).names).not.toContain('service-accounts');
  });

  it('is exported under the metric names of upstream', async () => {
    const registry = new Registry();
    registerFlowControlMetrics(registry, fairness);
    const place = fairness.acquire(requestOf('jane', [])) as ExecutionSeat;
    const text = await registry.metrics();
    expect(text).toContain(
      'apiserver_flowcontrol_current_executing_requests{priority_level="global-default",flow_schema="global-default"} 1',
    );
    expect(text).toContain('apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245');
    expect(text).toMatch(
      /apiserver_flowcontrol_dispatched_requests_total\{priority_level="global-default",flow_schema="global-default"\} 1/,
    );
    place.release();
  });

  it('exports how long requests waited', async () => {
    const { clock, fairness } = one(1, { queues: 1, handSize: 1, queueLengthLimit: 5 });
    const registry = new Registry();
    registerFlowControlMetrics(registry, fairness);
    const first = fairness.acquire(requestOf('a', [])) as ExecutionSeat;
    const [second, third] = [fairness.acquire(requestOf('a', [])), fairness.acquire(requestOf('a', []))];
    await clock.advance(300);
    first.release();
    await second;
    const outcome = Promise.resolve(third).catch((error: unknown) => error);
    await clock.advance(1_000);
    await outcome;
    const text = await registry.metrics();
    const labels = 'priority_level="own",flow_schema="all"';
    expect(text).toContain(`apiserver_flowcontrol_request_wait_duration_seconds_sum{${labels},execute="true"} 0.3`);
    expect(text).toContain(`apiserver_flowcontrol_request_wait_duration_seconds_sum{${labels},execute="false"} 1`);
  });
});

describe('the state of priority and fairness', () => {
  it('is dumped as tables of levels, queues and requests', async () => {
    const { clock, fairness } = one(1, { queues: 2, handSize: 1, queueLengthLimit: 5 });
    const dump = (name: string) => {
      const text = flowControlDumps(fairness, clock).get(`/debug/api_priority_and_fairness/${name}`)?.() ?? '';
      return text.split('\n').map((line) => line.split(/, */));
    };
    const place = fairness.acquire(requestOf('alice', [])) as ExecutionSeat;
    const waiting = fairness.acquire(requestOf('bob', []));
    expect(dump('dump_priority_levels').find(([name]) => name === 'own')).toEqual([
      'own',
      '1',
      'false',
      'false',
      '1',
      '1',
      '1',
      '0',
      '0',
      '0',
    ]);
    expect(dump('dump_queues').filter(([name, , pending]) => name === 'own' && pending === '1')).toHaveLength(1);
    const [head, request] = dump('dump_requests');
    expect(head?.slice(0, 5)).toEqual(['PriorityLevelName', 'FlowSchemaName', 'QueueIndex', 'RequestIndexInQueue', 'FlowDistingsher']);
    expect([request?.[0], request?.[1], request?.[4], request?.[6]]).toEqual(['own', 'all', 'bob', '1']);
    place.release();
    (await waiting).release();
    expect(dump('dump_requests')[1]).toEqual(['']);
  });
});
