import { formatLabelSelector } from '@oarlock/api/selectors/format-label-selector';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import { formatQuantity, milliValue, ParsedQuantity } from '@oarlock/api/values/quantity';
import type { MetricIdentifier, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import type { DiscoveredKinds } from '../discovery/discovered-kinds.ts';
import type { MetricsClient } from './metrics-client.ts';
import {
  averageValueReplicas,
  objectMetricReplicas,
  resourceUtilizationReplicas,
  type Timing,
  type Tolerances,
} from './replica-calculator.ts';

/** The scaled target and its pods. */
export interface ScaleSubject {
  readonly namespace: string;
  readonly selector: string;
  readonly pods: readonly Pod[];
  /** Replicas in the spec of the target's Scale; the next field is the number in the status. */
  readonly specReplicas: number;
  readonly statusReplicas: number;
}
export interface MetricProposal {
  readonly replicas: number;
  readonly name: string;
  readonly status: MetricStatus;
}

/** An error for a metric that is not available. The condition and the event of the metric contain `reason` and the message. */
export class MetricError extends Error {
  override readonly name = 'MetricError';
  readonly reason: string;
  /** The message for the event FailedComputeMetricsReplicas, which names the metric. */
  readonly summary: string;
  constructor(reason: string, message: string, { summary = message, cause }: { readonly summary?: string; readonly cause?: unknown } = {}) {
    super(message, { cause });
    this.reason = reason;
    this.summary = summary;
  }
}

/** Formats an amount in whole thousandths as a Kubernetes quantity. */
const formatMilli = (value: number) => formatQuantity(`${value}m`);
/** Formats an amount of a resource in whole thousandths, as metrics-server does: memory in binary units. */
const formatResource = (resource: string, milli: number): string =>
  resource === 'memory' ? ParsedQuantity.of(milli, 1000, 'BinarySI').toString() : formatMilli(milli);
const selectorText = ({ selector }: MetricIdentifier) => (selector === undefined ? '' : selectorFromLabelSelector(selector).toString());

/** The fields that Resource and ContainerResource metrics share. */
type ResourceSource = Pick<NonNullable<MetricSpec['resource']>, 'name' | 'target'>;

/** The input that the computations for all metrics share. */
export interface MetricContext {
  readonly subject: ScaleSubject;
  readonly source: MetricsClient;
  readonly client: Client;
  readonly tolerances: Tolerances;
  readonly timing: Timing;
  /** The kinds of objects that are not built in, which metrics may describe. */
  readonly kinds: Pick<DiscoveredKinds, 'find'>;
}

/** Computes the replicas that one metric requires. @throws MetricError if the metric is not available or its spec is invalid */
export function computeReplicasForMetric(spec: MetricSpec, context: MetricContext): Promise<MetricProposal> {
  switch (spec.type) {
    case 'Resource':
      return withMetricError('FailedGetResourceMetric', `${spec.resource?.name ?? ''} resource metric value`, () =>
        resourceProposal(spec.resource, undefined, context),
      );
    case 'ContainerResource':
      return withMetricError('FailedGetContainerResourceMetric', `${spec.containerResource?.container ?? ''} container metric value`, () =>
        resourceProposal(spec.containerResource, spec.containerResource?.container, context),
      );
    case 'Pods':
      return withMetricError('FailedGetPodsMetric', 'pods metric value', () => podsProposal(spec, context));
    case 'Object':
      return withMetricError('FailedGetObjectMetric', `object metric value${averageObject(spec)}`, () => objectProposal(spec, context));
    case 'External':
      return withMetricError('FailedGetExternalMetric', describeExternal(spec), () => externalProposal(spec, context));
    default:
      return Promise.reject(new MetricError('InvalidMetricSourceType', `unknown metric source type "${spec.type}"`));
  }
}

/** The part of upstream's message about an average object metric that names the metric. */
const averageObject = ({ object }: MetricSpec): string =>
  object?.target.averageValue === undefined ? '' : `: failed to get ${object.metric.name} object metric`;

/** Describes an external metric in upstream's message, which names it twice. */
function describeExternal({ external }: MetricSpec): string {
  const name = external?.metric.name ?? '';
  const again = external?.target.averageValue === undefined ? `external metric ${name}` : `${name} external metric`;
  return `${name} external metric value: failed to get ${again}`;
}

async function withMetricError(reason: string, metric: string, work: () => Promise<MetricProposal>): Promise<MetricProposal> {
  try {
    return await work();
  } catch (error) {
    const { message } = error as Error;
    throw new MetricError(reason, message, { summary: `failed to get ${metric}: ${message}`, cause: error });
  }
}

/** Runs `work` and prepends `prefix` to the message of its error. */
async function withPrefix<T>(prefix: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`${prefix}${(error as Error).message}`, { cause: error });
  }
}

const describeResource = (source: ResourceSource | undefined): string =>
  `${source?.name ?? ''} ${source?.target.averageUtilization === undefined ? 'usage' : 'utilization'}`;

const resourceProposal = (
  metric: ResourceSource | undefined,
  container: string | undefined,
  context: MetricContext,
): Promise<MetricProposal> =>
  withPrefix(`failed to get ${describeResource(metric)}: `, () => computeResourceProposal(metric, container, context));

async function computeResourceProposal(
  metric: ResourceSource | undefined,
  container: string | undefined,
  { subject, source, client, tolerances, timing }: MetricContext,
): Promise<MetricProposal> {
  const name = metric?.name ?? '';
  const { averageUtilization, averageValue } = metric?.target ?? { type: '' };
  const metrics = await withPrefix(`unable to get metrics for resource ${name}: `, () =>
    source.resource(client, subject.namespace, subject.selector, name, container),
  );
  const statusOf = (current: MetricValueStatus): MetricStatus =>
    container === undefined
      ? { type: 'Resource', resource: { name, current } }
      : { type: 'ContainerResource', containerResource: { name, container, current } };
  if (averageUtilization !== undefined) {
    const options = { current: subject.specReplicas, target: averageUtilization, resource: name, container };
    const {
      replicas,
      utilization = 0,
      average,
    } = resourceUtilizationReplicas(subject.pods, { all: metrics, ...options, tolerances, timing });
    const status = statusOf({ averageUtilization: utilization, averageValue: formatResource(name, average) });
    const label = container === undefined ? 'resource' : 'container resource';
    return { replicas, name: `${name} ${label} utilization (percentage of request)`, status };
  }
  if (averageValue === undefined)
    throw new Error('invalid resource metric source: neither a utilization target nor a value target was set');
  const options = { current: subject.specReplicas, target: milliValue(averageValue), resource: name };
  const { replicas, average } = averageValueReplicas(subject.pods, { all: metrics, ...options, tolerances, timing });
  return { replicas, name: `${name} resource`, status: statusOf({ averageValue: formatResource(name, average) }) };
}

async function podsProposal(spec: MetricSpec, { subject, source, client, tolerances, timing }: MetricContext): Promise<MetricProposal> {
  const { metric, target } = spec.pods ?? { metric: { name: '' }, target: { type: '' } };
  const metrics = await withPrefix(`unable to get metric ${metric.name}: `, () =>
    source.custom(client, {
      namespace: subject.namespace,
      resource: 'pods',
      name: '*',
      metric: metric.name,
      selector: subject.selector,
      metricSelector: selectorText(metric),
    }),
  );
  const options = { current: subject.specReplicas, target: milliValue(target.averageValue ?? '0'), resource: undefined };
  const { replicas, average } = averageValueReplicas(subject.pods, { all: metrics, ...options, tolerances, timing });
  const current = { averageValue: formatMilli(average) };
  return { replicas, name: `pods metric ${metric.name}`, status: { type: 'Pods', pods: { metric, current } } };
}

async function objectProposal(spec: MetricSpec, context: MetricContext): Promise<MetricProposal> {
  const { subject, source, client } = context;
  if (spec.object === undefined) throw new Error('there is no object');
  const { metric, target, describedObject } = spec.object;
  const gv = parseApiVersion(describedObject.apiVersion ?? 'v1');
  const kind = kindOf({ ...gv, kind: describedObject.kind }) ?? context.kinds.find(gv.group, describedObject.kind);
  if (kind === undefined) throw new Error(`no matches for kind "${describedObject.kind}" in group "${gv.group}"`);
  const about = `${describedObject.kind} on ${subject.namespace} ${describedObject.name}`;
  const values = await withPrefix(`unable to get metric ${metric.name}: ${about}/`, () =>
    source.custom(client, {
      namespace: subject.namespace,
      resource: kind.group === '' ? kind.resource : `${kind.resource}.${kind.group}`,
      // as upstream, a metric of a Namespace is that of the autoscaler's own namespace
      name: kind.group === '' && kind.kind === 'Namespace' ? subject.namespace : describedObject.name,
      metric: metric.name,
      selector: '',
      metricSelector: selectorText(metric),
    }),
  );
  const total = [...values.values()][0]?.value ?? 0;
  const { replicas, current } = proposeForTotal(total, target, context);
  return {
    replicas,
    // as upstream, the name of an average is that of an external metric
    name: target.averageValue === undefined ? `${describedObject.kind} metric ${metric.name}` : externalName(metric),
    status: { type: 'Object', object: { metric, describedObject, current } },
  };
}

async function externalProposal(spec: MetricSpec, context: MetricContext): Promise<MetricProposal> {
  const { subject, source, client } = context;
  const { metric, target } = spec.external ?? { metric: { name: '' }, target: { type: '' } };
  const about = `${subject.namespace}/${metric.name}/${formatLabelSelector(metric.selector)}`;
  const values = await withPrefix(`unable to get external metric ${about}: `, () =>
    source.external(client, subject.namespace, metric.name, selectorText(metric)),
  );
  const total = values.reduce((sum, value) => sum + value, 0);
  const { replicas, current } = proposeForTotal(total, target, context);
  return { replicas, name: externalName(metric), status: { type: 'External', external: { metric, current } } };
}

const externalName = ({ name, selector }: MetricIdentifier): string => `external metric ${name}(${formatLabelSelector(selector)})`;

/** Computes the replicas for a metric with one value for the whole target. */
function proposeForTotal(total: number, target: MetricTarget, { subject, tolerances }: MetricContext) {
  const replicas = objectMetricReplicas(
    total,
    {
      specReplicas: subject.specReplicas,
      statusReplicas: subject.statusReplicas,
      pods: subject.pods,
      ...(target.averageValue !== undefined && { averageValue: milliValue(target.averageValue) }),
      ...(target.value !== undefined && { value: milliValue(target.value) }),
    },
    tolerances,
  );
  const current: MetricValueStatus =
    target.averageValue === undefined
      ? { value: formatMilli(total) }
      : { averageValue: formatMilli(subject.statusReplicas === 0 ? 0 : Math.ceil(total / subject.statusReplicas)) };
  return { replicas, current };
}
