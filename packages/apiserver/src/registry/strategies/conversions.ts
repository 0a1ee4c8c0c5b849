import type { KubeObject } from '@oarlock/api/object';
import type { HorizontalPodAutoscaler as V1 } from '@oarlock/api/types/autoscaling-v1';
import type { HorizontalPodAutoscaler as V2, MetricSpec, MetricStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Event as CoreEvent } from '@oarlock/api/types/core-v1';
import type { Event } from '@oarlock/api/types/events-v1';
import type { VersionConversion } from '../served-kind.ts';
import { behaviors, conditions, metricSpecs, metricStatuses } from './autoscaler-annotations.ts';
import { events } from './core.ts';
import { olderDeviceVersions } from './device-conversions.ts';

/** Returns the object without members that are undefined. */
function withoutUndefined<T extends object>(object: T): T {
  for (const key of Object.keys(object))
    if ((object as Record<string, unknown>)[key] === undefined) delete (object as Record<string, unknown>)[key];
  return object;
}

const eventField = (name: string) => events.fields?.[name] ?? (() => '');

/** The conversion between events.k8s.io/v1 and core/v1, which is stored. */
const eventsV1: VersionConversion = {
  toStored(object) {
    const event = object as Event;
    return withoutUndefined({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: event.metadata,
      involvedObject: event.regarding ?? {},
      related: event.related,
      reason: event.reason,
      message: event.note,
      type: event.type,
      action: event.action,
      eventTime: event.eventTime,
      series: event.series,
      reportingComponent: event.reportingController,
      reportingInstance: event.reportingInstance,
      source: event.deprecatedSource,
      firstTimestamp: event.deprecatedFirstTimestamp,
      lastTimestamp: event.deprecatedLastTimestamp,
      count: event.deprecatedCount,
    }) as KubeObject;
  },
  fromStored(object) {
    const event = object as CoreEvent;
    return withoutUndefined({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: event.metadata,
      eventTime: event.eventTime ?? null,
      series: event.series,
      reportingController: event.reportingComponent,
      reportingInstance: event.reportingInstance,
      action: event.action,
      reason: event.reason,
      regarding: event.involvedObject,
      related: event.related,
      note: event.message,
      type: event.type,
      deprecatedSource: event.source,
      deprecatedFirstTimestamp: event.firstTimestamp,
      deprecatedLastTimestamp: event.lastTimestamp,
      deprecatedCount: event.count,
    }) as KubeObject;
  },
  fields: {
    ...Object.fromEntries(
      ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'].map((name) => [
        `regarding.${name}`,
        eventField(`involvedObject.${name}`),
      ]),
    ),
    reason: eventField('reason'),
    reportingController: eventField('reportingComponent'),
    type: eventField('type'),
  },
};

const metricsKey = 'autoscaling.alpha.kubernetes.io/metrics';
const currentKey = 'autoscaling.alpha.kubernetes.io/current-metrics';
const conditionsKey = 'autoscaling.alpha.kubernetes.io/conditions';
const behaviorKey = 'autoscaling.alpha.kubernetes.io/behavior';

const isCpu = (metric: MetricSpec) =>
  metric.type === 'Resource' && metric.resource?.name === 'cpu' && metric.resource.target.averageUtilization !== undefined;

/** The conversion between autoscaling/v1 and autoscaling/v2, which is stored. Fields that v1 does not have are kept in annotations. */
const autoscalersV1: VersionConversion = {
  toStored(object) {
    const { metadata, spec, status } = object as V1;
    const {
      [metricsKey]: metrics,
      [currentKey]: current,
      [conditionsKey]: condition,
      [behaviorKey]: behavior,
      ...annotations
    } = metadata?.annotations ?? {};
    const cpu: readonly MetricSpec[] =
      spec?.targetCPUUtilizationPercentage === undefined
        ? []
        : [
            {
              type: 'Resource',
              resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: spec.targetCPUUtilizationPercentage } },
            },
          ];
    // as upstream, the metrics of the annotation come first
    const all = [...(metricSpecs.parse(metrics) ?? []), ...cpu];
    const parsedBehavior = behaviors.parse(behavior);
    const parsedConditions = conditions.parse(condition);
    const currentCpu: readonly MetricStatus[] =
      status?.currentCPUUtilizationPercentage === undefined
        ? []
        : [{ type: 'Resource', resource: { name: 'cpu', current: { averageUtilization: status.currentCPUUtilizationPercentage } } }];
    const currentMetrics = metricStatuses.parse(current) ?? currentCpu;
    return {
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: withoutUndefined({ ...metadata, annotations: Object.keys(annotations).length === 0 ? undefined : annotations }),
      spec: withoutUndefined({
        scaleTargetRef: spec?.scaleTargetRef,
        minReplicas: spec?.minReplicas,
        maxReplicas: spec?.maxReplicas,
        metrics: all.length === 0 ? undefined : all,
        behavior: parsedBehavior,
      }),
      status: withoutUndefined({
        observedGeneration: status?.observedGeneration,
        lastScaleTime: status?.lastScaleTime,
        currentReplicas: status?.currentReplicas ?? 0,
        desiredReplicas: status?.desiredReplicas ?? 0,
        currentMetrics: currentMetrics.length === 0 ? undefined : currentMetrics,
        conditions: parsedConditions,
      }),
    } as KubeObject;
  },
  fromStored(object) {
    const { metadata, spec, status } = object as V2;
    const metrics = spec?.metrics ?? [];
    const cpu = metrics.find(isCpu);
    const others = metrics.filter((metric) => !isCpu(metric));
    const cpuNow = status?.currentMetrics?.find(({ type, resource }) => type === 'Resource' && resource?.name === 'cpu')?.resource?.current
      .averageUtilization;
    const annotations = withoutUndefined({
      ...metadata?.annotations,
      [metricsKey]: others.length === 0 ? undefined : metricSpecs.format(others),
      [currentKey]: (status?.currentMetrics ?? []).length === 0 ? undefined : metricStatuses.format(status?.currentMetrics ?? []),
      [conditionsKey]: (status?.conditions ?? []).length === 0 ? undefined : conditions.format(status?.conditions ?? []),
      [behaviorKey]: spec?.behavior === undefined ? undefined : behaviors.format(spec.behavior),
    });
    return {
      apiVersion: 'autoscaling/v1',
      kind: 'HorizontalPodAutoscaler',
      metadata: withoutUndefined({ ...metadata, annotations: Object.keys(annotations).length === 0 ? undefined : annotations }),
      spec: withoutUndefined({
        scaleTargetRef: spec?.scaleTargetRef,
        minReplicas: spec?.minReplicas,
        maxReplicas: spec?.maxReplicas,
        targetCPUUtilizationPercentage: cpu?.resource?.target.averageUtilization,
      }),
      status: withoutUndefined({
        observedGeneration: status?.observedGeneration,
        lastScaleTime: status?.lastScaleTime,
        currentReplicas: status?.currentReplicas ?? 0,
        desiredReplicas: status?.desiredReplicas ?? 0,
        currentCPUUtilizationPercentage: cpuNow,
      }),
    } as KubeObject;
  },
};

/** Returns the conversion between two versions that differ only in apiVersion. */
function renamedField(stored: string, served: string): VersionConversion {
  const [from = '', to = ''] = [stored, served].map((key) => key.slice(0, key.lastIndexOf('/')));
  return {
    toStored: (object) => ({ ...object, apiVersion: from }),
    fromStored: (object) => ({ ...object, apiVersion: to }),
  };
}

interface StoredVersion {
  readonly stored: string;
  readonly conversion: VersionConversion;
}

/** Returns the conversions of resources whose other versions have the same schema as the storage version (`group/version`). */
const sameSchema = (storageVersion: string, others: readonly string[], resources: readonly string[]): [string, StoredVersion][] =>
  resources.flatMap((resource) =>
    others.map((other): [string, StoredVersion] => {
      const [group = ''] = storageVersion.split('/');
      const [stored, served] = [`${storageVersion}/${resource}`, `${group}/${other}/${resource}`];
      return [served, { stored, conversion: renamedField(stored, served) }];
    }),
  );

/** The conversions of served versions that are not the storage version, by `group/version/resource`. */
export const versionConversions: ReadonlyMap<string, StoredVersion> = new Map([
  ['events.k8s.io/v1/events', { stored: '/v1/events', conversion: eventsV1 }],
  ['autoscaling/v1/horizontalpodautoscalers', { stored: 'autoscaling/v2/horizontalpodautoscalers', conversion: autoscalersV1 }],
  ...sameSchema(
    'admissionregistration.k8s.io/v1',
    ['v1beta1', 'v1alpha1'],
    ['mutatingadmissionpolicies', 'mutatingadmissionpolicybindings'],
  ),
  ...sameSchema('certificates.k8s.io/v1beta1', ['v1alpha1'], ['clustertrustbundles']),
  ...sameSchema('coordination.k8s.io/v1beta1', ['v1alpha2'], ['leasecandidates']),
  ...sameSchema('networking.k8s.io/v1', ['v1beta1'], ['ipaddresses', 'servicecidrs']),
  ...sameSchema('storage.k8s.io/v1', ['v1beta1'], ['volumeattributesclasses']),
  ...sameSchema('resource.k8s.io/v1', ['v1beta2'], ['deviceclasses', 'resourceclaims', 'resourceclaimtemplates', 'resourceslices']),
  ...sameSchema('resource.k8s.io/v1', ['v1beta1'], ['deviceclasses']),
  ...sameSchema('resource.k8s.io/v1beta2', ['v1alpha3'], ['devicetaintrules']),
  ...Object.entries(olderDeviceVersions).map(([resource, conversion]): [string, StoredVersion] => [
    `resource.k8s.io/v1beta1/${resource}`,
    { stored: `resource.k8s.io/v1/${resource}`, conversion },
  ]),
]);
