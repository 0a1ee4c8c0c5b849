import { selectorFromObject } from '@oarlock/api/label-selector';
import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import { milliValue } from '@oarlock/api/quantity';
import type { MetricIdentifier, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { isReady } from '../pod-state.ts';
import type { MetricsSource } from './pod-metrics.ts';
import { byAverage, byTotal, byUtilization, type Timing, type Tolerances } from './replica-calculator.ts';

/** What a number is asked about. */
export interface Subject {
  readonly namespace: string;
  readonly selector: string;
  readonly pods: readonly Pod[];
  /** As the target's spec and status say. */
  readonly wanted: number;
  readonly running: number;
}
export interface MetricProposal {
  readonly replicas: number;
  readonly name: string;
  readonly status: MetricStatus;
}

/** A metric that cannot be had: the reason is the condition's and the event's. */
export class MetricError extends Error {
  override readonly name = 'MetricError';
  readonly reason: string;
  constructor(reason: string, message: string, cause: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}

const milli = (value: number) => `${Math.round(value)}m`;
const amount = (value: number) => (Math.round(value) % 1000 === 0 ? String(Math.round(value) / 1000) : milli(value));
const selectorText = ({ selector }: MetricIdentifier) => (selector === undefined ? '' : selectorFromObject(selector).toString());

/** Works out what one metric asks for. @throws MetricError */
export async function proposalOf(
  spec: MetricSpec,
  subject: Subject,
  source: MetricsSource,
  client: Client,
  tolerances: Tolerances,
  timing: Timing,
): Promise<MetricProposal> {
  const attempt = async (reason: string, what: string, work: () => Promise<MetricProposal>): Promise<MetricProposal> => {
    try {
      return await work();
    } catch (error) {
      throw new MetricError(reason, `failed to get ${what}: ${(error as Error).message}`, error);
    }
  };
  switch (spec.type) {
    case 'Resource':
    case 'ContainerResource': {
      const of = spec.type === 'Resource' ? spec.resource : spec.containerResource;
      const container = spec.containerResource?.container;
      const name = of?.name ?? '';
      const reason = container === undefined ? 'FailedGetResourceMetric' : 'FailedGetContainerResourceMetric';
      return attempt(reason, `${name} ${of?.target.averageUtilization === undefined ? 'usage' : 'utilization'}`, async () => {
        const target: MetricTarget = of?.target ?? { type: '' };
        const metrics = await source.resource(client, subject.namespace, subject.selector, name, container);
        const { averageUtilization, averageValue } = target;
        const told = (current: MetricValueStatus): MetricStatus =>
          container === undefined
            ? { type: 'Resource', resource: { name, current } }
            : { type: 'ContainerResource', containerResource: { name, container, current } };
        const label = container === undefined ? `${name} resource` : `${name} container resource`;
        if (averageUtilization !== undefined) {
          const asked = { current: subject.wanted, target: averageUtilization, resource: name, container };
          const { replicas, utilization = 0, average } = byUtilization(subject.pods, metrics, asked, tolerances, timing);
          const status = told({ averageUtilization: utilization, averageValue: amount(average) });
          return { replicas, name: `${label} utilization (percentage of request)`, status };
        }
        if (averageValue === undefined)
          throw new Error('invalid resource metric source: neither a utilization target nor a value target was set');
        const asked = { current: subject.wanted, target: milliValue(averageValue), resource: name };
        const { replicas, average } = byAverage(subject.pods, metrics, asked, tolerances, timing);
        return { replicas, name: label, status: told({ averageValue: amount(average) }) };
      });
    }
    case 'Pods':
      return attempt('FailedGetPodsMetric', 'pods metric value', async () => {
        const { metric, target } = spec.pods ?? { metric: { name: '' }, target: { type: '' } };
        const metrics = await source.custom(client, {
          namespace: subject.namespace,
          resource: 'pods',
          name: '*',
          metric: metric.name,
          selector: subject.selector,
          metricSelector: selectorText(metric),
        });
        const asked = { current: subject.wanted, target: milliValue(target.averageValue ?? '0'), resource: undefined };
        const { replicas, average } = byAverage(subject.pods, metrics, asked, tolerances, timing);
        return {
          replicas,
          name: `pods metric ${metric.name}`,
          status: { type: 'Pods', pods: { metric, current: { averageValue: amount(average) } } },
        };
      });
    case 'Object':
      return attempt('FailedGetObjectMetric', 'object metric value', async () => {
        if (spec.object === undefined) throw new Error('there is no object');
        const { metric, target, describedObject } = spec.object;
        const kind = kindOf({ ...parseApiVersion(describedObject.apiVersion ?? 'v1'), kind: describedObject.kind });
        if (kind === undefined) throw new Error(`no matches for kind "${describedObject.kind}"`);
        const plural = kind.group === '' ? kind.resource : `${kind.resource}.${kind.group}`;
        const found = await source.custom(client, {
          namespace: subject.namespace,
          resource: plural,
          name: describedObject.name,
          metric: metric.name,
          selector: '',
          metricSelector: selectorText(metric),
        });
        const total = [...found.values()][0]?.value ?? 0;
        const { replicas, current } = whole(total, target, subject, tolerances);
        return {
          replicas,
          name: `${describedObject.kind.toLowerCase()} metric ${metric.name}`,
          status: { type: 'Object', object: { metric, describedObject, current } },
        };
      });
    case 'External':
      return attempt('FailedGetExternalMetric', 'external metric value', async () => {
        const { metric, target } = spec.external ?? { metric: { name: '' }, target: { type: '' } };
        const values = await source.external(client, subject.namespace, metric.name, selectorText(metric));
        const total = values.reduce((sum, value) => sum + value, 0);
        const { replicas, current } = whole(total, target, subject, tolerances);
        return { replicas, name: `external metric ${metric.name}`, status: { type: 'External', external: { metric, current } } };
      });
    default:
      throw new MetricError('InvalidMetricSourceType', `unknown metric source type "${spec.type}"`, undefined);
  }
}

function whole(
  total: number,
  target: { readonly value?: string | number; readonly averageValue?: string | number },
  subject: Subject,
  tolerances: Tolerances,
) {
  const ready = subject.pods.filter((pod) => pod.status?.phase === 'Running' && isReady(pod)).length;
  const replicas = byTotal(
    total,
    {
      current: subject.running,
      ready,
      ...(target.averageValue !== undefined && { averageValue: milliValue(target.averageValue) }),
      ...(target.value !== undefined && { value: milliValue(target.value) }),
    },
    tolerances,
  );
  const current: MetricValueStatus =
    target.averageValue === undefined
      ? { value: amount(total) }
      : { averageValue: amount(Math.ceil(total / Math.max(1, subject.running))) };
  return { replicas, current };
}
