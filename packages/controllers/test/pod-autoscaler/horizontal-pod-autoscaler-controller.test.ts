import { customResourceDefinitions, deployments, horizontalPodAutoscalers, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec } from '@oarlock/api/types/autoscaling-v2';
import autoscaler from '@oarlock/controllers/pod-autoscaler/horizontal-pod-autoscaler-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named, type RunningControllers } from '../support/running-controllers.ts';

const metricsPath = '/apis/metrics.k8s.io/v1beta1/namespaces/d/pods';
const make = (more: Partial<HorizontalPodAutoscalerSpec> = {}): HorizontalPodAutoscaler => ({
  apiVersion: 'autoscaling/v2',
  kind: 'HorizontalPodAutoscaler',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
    minReplicas: 1,
    maxReplicas: 10,
    metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } } }],
    ...more,
  },
});
/** Returns a Deployment of so many pods, each using `milli` of the 100m that it requests; undefined: not measured. */
function load(api: MemoryApi, uses: readonly (number | undefined)[], nowMs: number, ready = true): void {
  const replicas = uses.length;
  api.seed(deployments, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace: 'd', name: 'web' },
    spec: { replicas, selector: { matchLabels: { app: 'web' } }, template: {} },
    status: { replicas },
  });
  for (const pod of api.objects(pods, 'd')) api.remove(pods, at(pod.metadata?.name ?? ''));
  const long = formatTime(nowMs - 3_600_000);
  api.seed(
    pods,
    ...uses.map((_, index) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: `web-${index}`, labels: { app: 'web' } },
      spec: { containers: [{ name: 'c', image: 'a', resources: { requests: { cpu: '100m' } } }] },
      status: {
        phase: 'Running',
        startTime: long,
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: long }],
      },
    })),
  );
  api.paths.set(metricsPath, {
    items: uses.flatMap((milli, index) =>
      milli === undefined
        ? []
        : [
            {
              metadata: { name: `web-${index}` },
              timestamp: formatTime(nowMs),
              window: '30s',
              containers: [{ name: 'c', usage: { cpu: `${milli}m` } }],
            },
          ],
    ),
  });
}
const replicas = (api: MemoryApi) => api.object(deployments, at('web'))?.spec?.replicas;
const status = (api: MemoryApi) => api.object(horizontalPodAutoscalers, at('web'))?.status;
const condition = (api: MemoryApi, type: string) => status(api)?.conditions?.find((each) => each.type === type);
const start = async (uses: readonly (number | undefined)[], spec = make(), ready = true): Promise<RunningControllers> => {
  const life = await runControllers([autoscaler], {
    defaults: false,
    seed: (api, clock: FakeClock) => load(api, uses, clock.now(), ready),
  });
  await life.api.client().create(horizontalPodAutoscalers, spec);
  await life.clock.settle();
  return life;
};

describe('HorizontalPodAutoscalerController', () => {
  it('adds replicas in proportion to the utilization of the requests', async () => {
    const life = await start([100, 80]);
    const { api } = life;
    expect(replicas(api)).toBe(4);
    expect(status(api)).toMatchObject({ currentReplicas: 2, desiredReplicas: 4, lastScaleTime: formatTime(life.clock.now()) });
    expect(status(api)?.currentMetrics).toEqual([
      { type: 'Resource', resource: { name: 'cpu', current: { averageUtilization: 90, averageValue: '90m' } } },
    ]);
    expect(life.messages('SuccessfulRescale')).toEqual([
      'New size: 4; reason: cpu resource utilization (percentage of request) above target',
    ]);
    expect(condition(api, 'ScalingActive')).toMatchObject({
      status: 'True',
      reason: 'ValidMetricFound',
      message: 'the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)',
    });
    expect(condition(api, 'AbleToScale')).toMatchObject({
      reason: 'SucceededRescale',
      message: 'the HPA controller was able to update the target scale to 4',
    });
  });

  it('writes no observedGeneration', async () => {
    const { api } = await start([80]);
    expect(status(api)).not.toHaveProperty('observedGeneration');
  });

  it('does nothing within its tolerance', async () => {
    const { api } = await start([54, 55]);
    expect(replicas(api)).toBe(2);
    expect(condition(api, 'ScalingLimited')).toMatchObject({ status: 'False', reason: 'DesiredWithinRange' });
  });

  it('does not scale pods that another autoscaler selects', async () => {
    const { api, clock, messages } = await start([50, 50]);
    const { metadata, ...rest } = make();
    await api.client().create(horizontalPodAutoscalers, { ...rest, metadata: { ...metadata, name: 'other' } });
    await clock.settle();
    const message = 'pods by selector app=web are controlled by multiple HPAs: [{other d} {web d}]';
    expect(messages('AmbiguousSelector')).toEqual([message]);
    expect(messages('FailedComputeMetricsReplicas')).toEqual([message]);
    expect(api.object(horizontalPodAutoscalers, at('other'))?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'ScalingActive', status: 'False', reason: 'AmbiguousSelector', message }),
    );
    await api.client().delete(horizontalPodAutoscalers, at('web'));
    await clock.advance(15_000);
    expect(api.object(horizontalPodAutoscalers, at('other'))?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'ScalingActive', status: 'True' }),
    );
  });

  it('waits five minutes before it scales down', async () => {
    const { api, clock } = await start([50, 50, 50, 50]);
    load(api, [10, 10, 10, 10], clock.now());
    await clock.advance(15_000);
    expect(replicas(api)).toBe(4);
    expect(condition(api, 'AbleToScale')).toMatchObject({ reason: 'ScaleDownStabilized' });
    await clock.advance(300_000);
    expect(replicas(api)).toBe(1);
  });

  it('keeps within its bounds and reports when they limit it', async () => {
    const { api, clock } = await start([100, 100, 100, 100, 100, 100], make({ maxReplicas: 8 }));
    expect(replicas(api)).toBe(8);
    expect(condition(api, 'ScalingLimited')).toMatchObject({ status: 'True', reason: 'TooManyReplicas' });
    load(
      api,
      Array.from({ length: 12 }, () => 50),
      clock.now(),
    );
    await clock.advance(15_000);
    expect(replicas(api)).toBe(8);
    await api.client().patch(horizontalPodAutoscalers, at('web'), 'merge', { spec: { minReplicas: 20, maxReplicas: 30 } });
    await clock.settle();
    expect(replicas(api)).toBe(20);
  });

  it('applies the policies of its behavior', async () => {
    const behavior = {
      scaleUp: { stabilizationWindowSeconds: 0, selectPolicy: 'Max', policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] },
      scaleDown: {
        stabilizationWindowSeconds: 0,
        selectPolicy: 'Min',
        policies: [
          { type: 'Percent', value: 50, periodSeconds: 60 },
          { type: 'Pods', value: 1, periodSeconds: 60 },
        ],
      },
    };
    const { api, clock } = await start([100, 100], make({ behavior }));
    expect(replicas(api)).toBe(3);
    expect(condition(api, 'ScalingLimited')).toMatchObject({ status: 'True', reason: 'ScaleUpLimit' });
    load(api, [100, 100, 100], clock.now());
    await clock.advance(45_000);
    expect(replicas(api)).toBe(3);
    await clock.advance(15_000);
    expect(replicas(api)).toBe(4);
    load(api, [50, 50, 50, 50], clock.now());
    await clock.advance(60_000);
    load(api, [1, 1, 1, 1], clock.now());
    await clock.advance(15_000);
    expect(replicas(api)).toBe(3);
    expect(condition(api, 'ScalingLimited')).toMatchObject({ status: 'True', reason: 'ScaleDownLimit' });
    await clock.advance(45_000);
    expect(replicas(api)).toBe(3);
    await clock.advance(15_000);
    expect(replicas(api)).toBe(2);
  });

  it('rounds the limit of a percentage as upstream', async () => {
    const policies = [{ type: 'Percent', value: 10, periodSeconds: 60 }];
    const behavior = { scaleUp: { stabilizationWindowSeconds: 0, selectPolicy: 'Max', policies } };
    const uses = Array.from({ length: 100 }, () => 100);
    const { api } = await start(uses, make({ behavior, maxReplicas: 500 }));
    // 100 * (1 + 10 / 100) is 110.00000000000001
    expect(replicas(api)).toBe(111);
  });

  it('assumes values with the smallest change for pods without a metric', async () => {
    const up = await start([100, undefined]);
    expect(replicas(up.api)).toBe(2);
    const down = await start([10, 10, undefined], make({ behavior: { scaleDown: { stabilizationWindowSeconds: 0 } } }));
    // (10 + 10 + 100) / 300 of 50%
    expect(replicas(down.api)).toBe(3);
  });

  it('reports missing metrics and an invalid selector', async () => {
    const life = await start([50]);
    const { api, clock } = life;
    api.paths.delete(metricsPath);
    await clock.advance(15_000);
    expect(condition(api, 'ScalingActive')).toMatchObject({
      status: 'False',
      reason: 'FailedGetResourceMetric',
      message:
        'the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)',
    });
    expect(life.reasons()).toContain('FailedComputeMetricsReplicas');
    expect(status(api)?.currentMetrics).toEqual([{ type: '' }]);
    api.remove(deployments, at('web'));
    await clock.advance(15_000);
    expect(condition(api, 'AbleToScale')).toMatchObject({ status: 'False', reason: 'FailedGetScale' });
    load(api, [], clock.now());
    await clock.advance(15_000);
    expect(condition(api, 'ScalingActive')).toMatchObject({
      reason: 'ScalingDisabled',
      message: 'scaling is disabled since the replica count of the target is zero',
    });
    expect(status(api)?.currentMetrics).toBeUndefined();
  });

  it('uses the largest result of values, averages and external metrics', async () => {
    const spec = make({
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'AverageValue', averageValue: '50m' } } },
        { type: 'External', external: { metric: { name: 'queue' }, target: { type: 'AverageValue', averageValue: '30' } } },
      ],
    });
    const life = await runControllers([autoscaler], {
      defaults: false,
      seed: (api, clock) => {
        load(api, [60, 60], clock.now());
        api.paths.set('/apis/external.metrics.k8s.io/v1beta1/namespaces/d/queue', { items: [{ value: '100' }, { value: '20' }] });
      },
    });
    await life.api.client().create(horizontalPodAutoscalers, spec);
    await life.clock.settle();
    expect(replicas(life.api)).toBe(4);
    expect(life.messages('SuccessfulRescale')).toEqual(['New size: 4; reason: external metric queue(nil) above target']);
    expect(status(life.api)?.currentMetrics).toMatchObject([
      { resource: { current: { averageValue: '60m' } } },
      { external: { current: { averageValue: '60' } } },
    ]);
    expect(named(life.api.objects(deployments, 'd'))).toEqual(['web']);
  });
});

describe('HorizontalPodAutoscalerController beside other writers', () => {
  /** Makes the updates of a path fail, as often as `errors` has entries. */
  const failUpdates = (api: MemoryApi, path: string, errors: Error[]): void => {
    const handle = api.handler.handle.bind(api.handler);
    api.handler.handle = (call, ...rest) => {
      const isUpdate = call.verb === 'update' && `${call.resource.resource}/${call.subresource ?? ''}` === path;
      const error = isUpdate ? errors.shift() : undefined;
      if (error !== undefined) throw error;
      return handle(call, ...rest);
    };
  };
  const conflict = () => failure('Conflict', 'the object has been modified');

  it('updates the scale again after a conflict', async () => {
    const life = await start([50, 50]);
    failUpdates(life.api, 'deployments/scale', [conflict(), conflict()]);
    load(life.api, [100, 100], life.clock.now());
    await life.clock.advance(15_000);
    expect(replicas(life.api)).toBe(4);
    expect(life.reasons()).not.toContain('FailedRescale');
  });

  it('reports a status that cannot be written', async () => {
    const life = await start([50, 50]);
    failUpdates(life.api, 'horizontalpodautoscalers/status', [failure('InternalError', 'the disk is full')]);
    load(life.api, [53, 53], life.clock.now());
    await life.clock.advance(15_000);
    expect(life.messages('FailedUpdateStatus')).toEqual(['the disk is full']);
  });
});

describe('HorizontalPodAutoscalerController and the resource metrics API', () => {
  it('reports a container without metrics, and pods whose metrics lack the resource', async () => {
    const container = { name: 'cpu', container: 'other', target: { type: 'Utilization', averageUtilization: 50 } };
    const other = await start([50], make({ metrics: [{ type: 'ContainerResource', containerResource: container }] }));
    expect(condition(other.api, 'ScalingActive')?.message).toMatch(
      /unable to get metrics for resource cpu: failed to get container metrics: container other not present in metrics for pod d\/web-0$/,
    );
    const memory = await start([50], make({ metrics: [{ type: 'Resource', resource: { name: 'memory', target: container.target } }] }));
    expect(condition(memory.api, 'ScalingActive')?.message).toMatch(
      /failed to get memory utilization: did not receive metrics for targeted pods \(pods might be unready\)$/,
    );
  });

  it('shows memory in binary units', async () => {
    const life = await start([50]);
    life.api.paths.set(metricsPath, {
      items: [
        { metadata: { name: 'web-0' }, timestamp: formatTime(0), window: '30s', containers: [{ name: 'c', usage: { memory: '69748Ki' } }] },
      ],
    });
    const target = { type: 'AverageValue', averageValue: '1Gi' };
    await life.api.client().patch(horizontalPodAutoscalers, at('web'), 'merge', {
      spec: { metrics: [{ type: 'Resource', resource: { name: 'memory', target } }] },
    });
    await life.clock.settle();
    expect(status(life.api)?.currentMetrics).toMatchObject([{ resource: { current: { averageValue: '69748Ki' } } }]);
  });
});

describe('HorizontalPodAutoscalerController with custom and external metrics', () => {
  const custom = '/apis/custom.metrics.k8s.io';
  const asked = (api: MemoryApi) => {
    const urls: string[] = [];
    const handlePath = api.handler.handlePath.bind(api.handler);
    api.handler.handlePath = (method, path, ...rest) => {
      urls.push(path);
      return handlePath(method, path, ...rest);
    };
    return urls;
  };
  const run = async (metrics: HorizontalPodAutoscalerSpec['metrics'], paths: Readonly<Record<string, unknown>>) => {
    const life = await runControllers([autoscaler], {
      defaults: false,
      seed: (api, clock) => {
        load(api, [10, 10], clock.now());
        for (const [path, answer] of Object.entries(paths)) api.paths.set(path, answer);
      },
    });
    const seen = asked(life.api);
    await life.api.client().create(horizontalPodAutoscalers, make({ metrics: metrics ?? [] }));
    await life.clock.settle();
    return { ...life, seen };
  };
  const perPod = { type: 'Pods', pods: { metric: { name: 'rps' }, target: { type: 'AverageValue', averageValue: '10' } } };
  const values = (value: string) => ({
    items: ['web-0', 'web-1'].map((name) => ({ describedObject: { kind: 'Pod', name }, timestamp: formatTime(0), value })),
  });

  it('uses the average of a pods metric with a metric selector', async () => {
    const selector = { matchLabels: { verb: 'get' } };
    const { api, seen } = await run([{ ...perPod, pods: { ...perPod.pods, metric: { name: 'rps', selector } } }], {
      [`${custom}/v1beta2/namespaces/d/pods/*/rps`]: values('25'),
    });
    expect(replicas(api)).toBe(4); // 5 would be desired; the scale-up limit is twice the current number
    expect(condition(api, 'ScalingLimited')?.reason).toBe('ScaleUpLimit');
    expect(status(api)?.currentMetrics).toEqual([
      { type: 'Pods', pods: { metric: { name: 'rps', selector }, current: { averageValue: '25' } } },
    ]);
    expect(seen).toContain(`${custom}/v1beta2/namespaces/d/pods/*/rps?labelSelector=app%3Dweb&metricLabelSelector=verb%3Dget`);
  });

  it('uses the older version of the custom metrics API if only that is served', async () => {
    const { api } = await run([perPod], {
      [custom]: { kind: 'APIGroup', name: 'custom.metrics.k8s.io', versions: [{ version: 'v1beta1' }] },
      [`${custom}/v1beta1/namespaces/d/pods/*/rps`]: values('15'),
    });
    expect(replicas(api)).toBe(3);
  });

  it('uses a metric of another object, also of a namespace', async () => {
    const object = (kind: string, apiVersion: string, name: string) => ({
      type: 'Object',
      object: {
        describedObject: { kind, apiVersion, name },
        metric: { name: 'hits', selector: { matchLabels: { verb: 'get' } } },
        target: { type: 'Value', value: '10' },
      },
    });
    const one = await run([object('Ingress', 'networking.k8s.io/v1', 'front')], {
      [`${custom}/v1beta2/namespaces/d/ingresses.networking.k8s.io/front/hits`]: { items: [{ value: '15', timestamp: formatTime(0) }] },
    });
    expect(replicas(one.api)).toBe(3);
    expect(one.seen).toContain(`${custom}/v1beta2/namespaces/d/ingresses.networking.k8s.io/front/hits?metricLabelSelector=verb%3Dget`);
    expect(status(one.api)?.currentMetrics).toMatchObject([{ type: 'Object', object: { current: { value: '15' } } }]);
    expect(one.messages('SuccessfulRescale')).toEqual(['New size: 3; reason: Ingress metric hits above target']);
    // the name is ignored, as upstream: an autoscaler reads metrics of its own namespace only
    const all = await run([object('Namespace', 'v1', 'another')], {
      [`${custom}/v1beta2/namespaces/d/metrics/hits`]: { items: [{ value: '20', timestamp: formatTime(0) }] },
    });
    expect(replicas(all.api)).toBe(4);
  });

  it('uses a metric of a custom resource', async () => {
    const described = { kind: 'Gate', apiVersion: 'example.com/v1', name: 'front' };
    const life = await runControllers([autoscaler], {
      defaults: false,
      seed: (api, clock) => {
        load(api, [10, 10], clock.now());
        api.seed(customResourceDefinitions, {
          apiVersion: 'apiextensions.k8s.io/v1',
          kind: 'CustomResourceDefinition',
          metadata: { name: 'gates.example.com' },
          spec: {
            group: 'example.com',
            scope: 'Namespaced',
            names: { kind: 'Gate', plural: 'gates' },
            versions: [{ name: 'v1', served: true, storage: true }],
          },
          status: { conditions: [{ type: 'Established', status: 'True' }], storedVersions: ['v1'] },
        });
        api.paths.set(`${custom}/v1beta2/namespaces/d/gates.example.com/front/hits`, { items: [{ value: '30' }] });
      },
    });
    const object = { describedObject: described, metric: { name: 'hits' }, target: { type: 'AverageValue', averageValue: '10' } };
    await life.api.client().create(horizontalPodAutoscalers, make({ metrics: [{ type: 'Object', object }] }));
    await life.clock.settle();
    expect(replicas(life.api)).toBe(3);
    expect(life.messages('SuccessfulRescale')).toEqual(['New size: 3; reason: external metric hits(nil) above target']);
  });

  it('keeps the replicas of the spec while the value of an object is within its tolerance', async () => {
    const object = {
      describedObject: { kind: 'Pod', apiVersion: 'v1', name: 'x' },
      metric: { name: 'hits' },
      target: { type: 'Value', value: '100k' },
    };
    const life = await run([{ type: 'Object', object }], {
      [`${custom}/v1beta2/namespaces/d/pods/x/hits`]: { items: [{ value: '100k' }] },
    });
    await life.api.client().patch(deployments, at('web'), 'merge', { status: { replicas: 5 } });
    await life.clock.advance(15_000);
    expect(replicas(life.api)).toBe(2);
    expect(status(life.api)?.currentMetrics).toMatchObject([{ object: { current: { value: '100k' } } }]);
  });

  it('uses the average of an external metric', async () => {
    const external = {
      type: 'External',
      external: {
        metric: { name: 'queue', selector: { matchLabels: { of: 'web' } } },
        target: { type: 'AverageValue', averageValue: '10' },
      },
    };
    const { api, seen } = await run([external], {
      '/apis/external.metrics.k8s.io/v1beta1/namespaces/d/queue': { items: [{ value: '21' }, { value: '9' }] },
    });
    expect(replicas(api)).toBe(3);
    expect(seen).toContain('/apis/external.metrics.k8s.io/v1beta1/namespaces/d/queue?labelSelector=of%3Dweb');
  });

  it.each([
    ['FailedGetPodsMetric', perPod],
    [
      'FailedGetObjectMetric',
      {
        type: 'Object',
        object: { describedObject: { kind: 'Pod', name: 'x' }, metric: { name: 'm' }, target: { type: 'Value', value: '1' } },
      },
    ],
    ['FailedGetExternalMetric', { type: 'External', external: { metric: { name: 'm' }, target: { type: 'Value', value: '1' } } }],
  ])('reports %s if the metric is not available, and does not scale', async (reason, metric) => {
    const { api, reasons, messages } = await run([metric], { [custom]: { kind: 'APIGroup', versions: [{ version: 'v1beta2' }] } });
    expect(condition(api, 'ScalingActive')).toMatchObject({ status: 'False', reason });
    expect(reasons()).toContain(reason);
    const names = { FailedGetPodsMetric: 'pods metric value', FailedGetObjectMetric: 'object metric value' };
    const name = names[reason as keyof typeof names] ?? 'm external metric value: failed to get external metric m';
    expect(messages('FailedComputeMetricsReplicas')).toEqual([
      `invalid metrics (1 invalid out of 1), first error is: failed to get ${name}: ${messages(reason)[0]}`,
    ]);
    expect(replicas(api)).toBe(2);
  });
});

controllerPluginContract(autoscaler, [
  {
    title: 'scales from two replicas to four',
    steps: [
      async (api) => {
        if (api.object(deployments, at('web')) === undefined) load(api, [100, 100], Date.UTC(2026, 0, 1));
        await api.client().create(horizontalPodAutoscalers, make({ maxReplicas: 4 }));
      },
    ],
    expectResult: (api) => {
      expect(replicas(api)).toBe(4);
      expect(condition(api, 'ScalingActive')?.status).toBe('True');
      expect(condition(api, 'AbleToScale')?.reason).toBe('ReadyForNewScale');
    },
  },
]);
