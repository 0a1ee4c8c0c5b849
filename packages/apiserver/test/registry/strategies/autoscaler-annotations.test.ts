import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { afterEach, describe, expect, it } from 'vitest';
import { startServer, stopServers } from '../../support/custom-resource-definitions.ts';

afterEach(stopServers);

const [v1, v2] = ['v1', 'v2'].map((version) =>
  resource('autoscaling', version, 'horizontalpodautoscalers', 'HorizontalPodAutoscaler', true),
) as [ReturnType<typeof resource>, ReturnType<typeof resource>];
const at = { namespace: 'default' };
const key = (name: string) => `autoscaling.alpha.kubernetes.io/${name}`;
const scaleTargetRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' };

const autoscaler = (version: string, spec: object, annotations?: Readonly<Record<string, string>>): KubeObject =>
  ({
    apiVersion: `autoscaling/${version}`,
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'a', ...(annotations && { annotations }) },
    spec: { scaleTargetRef, maxReplicas: 3, ...spec },
  }) as KubeObject;

const selector = { matchLabels: { a: 'b' } };
const cpu = { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } } };
/** Each kind of metric in autoscaling/v2, and its text in the annotation of autoscaling/v1. */
const metrics: readonly (readonly [object, string])[] = [
  [
    { type: 'Resource', resource: { name: 'memory', target: { type: 'Utilization', averageUtilization: 80 } } },
    '{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":80}}',
  ],
  [
    { type: 'Resource', resource: { name: 'cpu', target: { type: 'AverageValue', averageValue: '500m' } } },
    '{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"500m"}}',
  ],
  [
    {
      type: 'ContainerResource',
      containerResource: { name: 'cpu', container: 'app', target: { type: 'Utilization', averageUtilization: 60 } },
    },
    '{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":60,"container":"app"}}',
  ],
  [
    { type: 'Pods', pods: { metric: { name: 'packets', selector }, target: { type: 'AverageValue', averageValue: '1k' } } },
    '{"type":"Pods","pods":{"metricName":"packets","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}}',
  ],
  [
    {
      type: 'Object',
      object: {
        describedObject: { kind: 'Ingress', name: 'main', apiVersion: 'networking.k8s.io/v1' },
        metric: { name: 'requests' },
        target: { type: 'Value', value: '10k' },
      },
    },
    '{"type":"Object","object":{"target":{"kind":"Ingress","name":"main","apiVersion":"networking.k8s.io/v1"},"metricName":"requests","targetValue":"10k"}}',
  ],
  [
    {
      type: 'Object',
      object: {
        describedObject: { kind: 'Ingress', name: 'main', apiVersion: 'networking.k8s.io/v1' },
        metric: { name: 'requests' },
        target: { type: 'AverageValue', averageValue: '5' },
      },
    },
    '{"type":"Object","object":{"target":{"kind":"Ingress","name":"main","apiVersion":"networking.k8s.io/v1"},"metricName":"requests","targetValue":"0","averageValue":"5"}}',
  ],
  [
    { type: 'External', external: { metric: { name: 'queue', selector }, target: { type: 'AverageValue', averageValue: '30' } } },
    '{"type":"External","external":{"metricName":"queue","metricSelector":{"matchLabels":{"a":"b"}},"targetAverageValue":"30"}}',
  ],
  [
    { type: 'External', external: { metric: { name: 'queue' }, target: { type: 'Value', value: '30' } } },
    '{"type":"External","external":{"metricName":"queue","targetValue":"30"}}',
  ],
];

describe('metrics of a HorizontalPodAutoscaler in autoscaling/v1', () => {
  it.each(metrics)('are in the annotation as v1 declares them: %j', async (metric, annotation) => {
    const server = await startServer();
    await server.create(v2, autoscaler('v2', { metrics: [metric, cpu] }), at);
    const older = await server.get(v1, 'a', at);
    expect(older).toMatchObject({
      metadata: { annotations: { [key('metrics')]: `[${annotation}]` } },
      spec: { targetCPUUtilizationPercentage: 50 },
    });
    // an update through v1 changes no metric
    const { spec } = older as KubeObject & { readonly spec: object };
    await server.update(v1, { ...older, spec: { ...spec, maxReplicas: 4 } } as KubeObject, { ...at, name: 'a' });
    const after = await server.get(v2, 'a', at);
    expect(after).toMatchObject({ spec: { maxReplicas: 4, metrics: [metric, cpu] } });
    expect(after).not.toHaveProperty('metadata.annotations');
  });

  it.each(metrics)('are read from the annotation of a manifest: %j', async (metric, annotation) => {
    const server = await startServer();
    await server.create(v1, autoscaler('v1', {}, { [key('metrics')]: `[${annotation}]`, other: 'kept' }), at);
    expect(await server.get(v2, 'a', at)).toMatchObject({ metadata: { annotations: { other: 'kept' } }, spec: { metrics: [metric] } });
  });

  it.each(['no JSON', '{}', '[{"type":"Pods","pods":{"metricName":"a","targetAverageValue":"many"}}]'])(
    'are the default if the annotation is %s',
    async (annotation) => {
      const server = await startServer();
      await server.create(v1, autoscaler('v1', {}, { [key('metrics')]: annotation }), at);
      expect(await server.get(v2, 'a', at)).toMatchObject({
        spec: { metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } }] },
      });
    },
  );
});

describe('the behavior of a HorizontalPodAutoscaler in autoscaling/v1', () => {
  const policies = [{ type: 'Pods', value: 4, periodSeconds: 15 }];
  const behavior = {
    scaleUp: { stabilizationWindowSeconds: 0, selectPolicy: 'Max', policies },
    scaleDown: { stabilizationWindowSeconds: 60, selectPolicy: 'Min', policies, tolerance: '100m' },
  };

  it('is in the annotation with the names of the internal type', async () => {
    const server = await startServer();
    await server.create(v2, autoscaler('v2', { metrics: [cpu], behavior }), at);
    const older = await server.get(v1, 'a', at);
    const internal = '"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}]';
    expect(older.metadata?.annotations).toEqual({
      [key('behavior')]:
        `{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max",${internal},"Tolerance":null},` +
        `"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Min",${internal},"Tolerance":"100m"}}`,
    });
    await server.update(v1, older, { ...at, name: 'a' });
    expect(await server.get(v2, 'a', at)).toMatchObject({ spec: { behavior } });
  });
});

describe('the status of a HorizontalPodAutoscaler in autoscaling/v1', () => {
  it('has its metrics and conditions in annotations', async () => {
    const server = await startServer();
    const created = await server.create(v2, autoscaler('v2', { metrics: [cpu] }), at);
    const status = {
      currentReplicas: 1,
      desiredReplicas: 1,
      currentMetrics: [{ type: 'Resource', resource: { name: 'cpu', current: { averageUtilization: 7, averageValue: '3m' } } }],
      conditions: [
        { type: 'AbleToScale', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: 'ReadyForNewScale', message: 'a & b' },
      ],
    };
    await server.update(v2, { ...created, status } as KubeObject, { ...at, name: 'a', subresource: 'status' });
    const older = await server.get(v1, 'a', at);
    expect(older).toMatchObject({
      metadata: {
        annotations: {
          [key('current-metrics')]:
            '[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"3m"}}]',
          [key('conditions')]:
            '[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"ReadyForNewScale","message":"a \\u0026 b"}]',
        },
      },
      status: { currentCPUUtilizationPercentage: 7 },
    });
    await server.update(v1, older, { ...at, name: 'a', subresource: 'status' });
    expect(await server.get(v2, 'a', at)).toMatchObject({ status });
  });
});
