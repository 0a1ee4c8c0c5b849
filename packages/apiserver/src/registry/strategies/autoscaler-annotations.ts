import { escapeHtml } from '@oarlock/api/json/go-print';
import { isObject } from '@oarlock/api/json/json';
import type {
  CrossVersionObjectReference,
  HorizontalPodAutoscalerBehavior,
  HorizontalPodAutoscalerCondition,
  HPAScalingRules,
  MetricSpec,
  MetricStatus,
  MetricTarget,
} from '@oarlock/api/types/autoscaling-v2';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { compareQuantity, parseQuantity } from '@oarlock/api/values/quantity';
import { z } from 'zod';

/*
 * The annotations in which autoscaling/v1 keeps the fields of v2. They hold the types that k8s.io/api/autoscaling/v1 declares for them, with the fields
 * in the order of the Go structs: clients read and write these texts, and manifests of older clusters contain them.
 */

const isQuantity = (text: string): boolean => {
  try {
    parseQuantity(text);
    return true;
  } catch {
    return false;
  }
};
const quantity = z.union([z.string(), z.number()]).transform(String).refine(isQuantity);
const text = z.string().default('');
const integer = z.int().optional();
// absent members are undefined in the type of a parsed value, but not in the value itself
const reference = z
  .object({ kind: text, name: text, apiVersion: z.string().optional() })
  .transform((value) => value as CrossVersionObjectReference);
const selector = z
  .object({
    matchLabels: z.record(z.string(), z.string()).optional(),
    matchExpressions: z.array(z.object({ key: text, operator: text, values: z.array(z.string()).optional() })).optional(),
  })
  .transform((value) => value as LabelSelector)
  .optional();

const resourceSpec = z.object({ name: text, targetAverageUtilization: integer, targetAverageValue: quantity.optional() });
const metricSpec = z.object({
  type: text,
  object: z
    .object({
      target: reference.default({ kind: '', name: '' }),
      metricName: text,
      targetValue: quantity.default('0'),
      selector,
      averageValue: quantity.optional(),
    })
    .optional(),
  pods: z.object({ metricName: text, targetAverageValue: quantity.default('0'), selector }).optional(),
  resource: resourceSpec.optional(),
  containerResource: resourceSpec.extend({ container: text }).optional(),
  external: z
    .object({ metricName: text, metricSelector: selector, targetValue: quantity.optional(), targetAverageValue: quantity.optional() })
    .optional(),
});

const resourceStatus = z.object({ name: text, currentAverageUtilization: integer, currentAverageValue: quantity.default('0') });
const metricStatus = z.object({
  type: text,
  object: z
    .object({
      target: reference.default({ kind: '', name: '' }),
      metricName: text,
      currentValue: quantity.default('0'),
      selector,
      averageValue: quantity.optional(),
    })
    .optional(),
  pods: z.object({ metricName: text, currentAverageValue: quantity.default('0'), selector }).optional(),
  resource: resourceStatus.optional(),
  containerResource: resourceStatus.extend({ container: text }).optional(),
  external: z
    .object({ metricName: text, metricSelector: selector, currentValue: quantity.default('0'), currentAverageValue: quantity.optional() })
    .optional(),
});
type MetricSpecV1 = z.infer<typeof metricSpec>;
type MetricStatusV1 = z.infer<typeof metricStatus>;

const condition = z.object({
  type: text,
  status: text,
  lastTransitionTime: z.string().optional(),
  reason: z.string().optional(),
  message: z.string().optional(),
});
const rules = z.object({
  stabilizationWindowSeconds: integer,
  selectPolicy: z.string().optional(),
  policies: z.array(z.object({ type: text, value: z.int().default(0), periodSeconds: z.int().default(0) })).optional(),
  tolerance: quantity.optional(),
});
const behavior = z.object({ scaleUp: rules.optional(), scaleDown: rules.optional() });

/** Returns the value without null members, and with member names that begin with a lower-case letter: Go ignores both differences. */
function normalized(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalized);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, member]) =>
      member === null ? [] : [[`${key.slice(0, 1).toLowerCase()}${key.slice(1)}`, normalized(member)]],
    ),
  );
}

/** Parses an annotation. As upstream, ignores a text that is not of the type: users may write the annotation. */
function parse<T>(schema: z.ZodType<T>, annotation: string | undefined): T | undefined {
  if (annotation === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(annotation);
  } catch {
    return undefined;
  }
  return schema.safeParse(normalized(value)).data;
}
const format = (value: unknown): string => escapeHtml(JSON.stringify(value));

const identifierOf = (name: string, labels: LabelSelector | undefined) => ({ name, ...(labels && { selector: labels }) });
const resourceTarget = ({ targetAverageUtilization, targetAverageValue }: z.infer<typeof resourceSpec>): MetricTarget => ({
  type: targetAverageUtilization === undefined ? 'AverageValue' : 'Utilization',
  ...(targetAverageValue !== undefined && { averageValue: targetAverageValue }),
  ...(targetAverageUtilization !== undefined && { averageUtilization: targetAverageUtilization }),
});

function specToV2({ type, object, pods, resource, containerResource, external }: MetricSpecV1): MetricSpec {
  return {
    type,
    ...(object && {
      object: {
        describedObject: object.target,
        metric: identifierOf(object.metricName, object.selector),
        target: {
          type: object.averageValue === undefined ? 'Value' : 'AverageValue',
          // v1 requires a value, which is 0 for a metric that has an average value only
          ...((object.averageValue === undefined || compareQuantity(object.targetValue, '0') !== 0) && { value: object.targetValue }),
          ...(object.averageValue !== undefined && { averageValue: object.averageValue }),
        },
      },
    }),
    ...(pods && {
      pods: {
        metric: identifierOf(pods.metricName, pods.selector),
        target: { type: 'AverageValue', averageValue: pods.targetAverageValue },
      },
    }),
    ...(resource && { resource: { name: resource.name, target: resourceTarget(resource) } }),
    ...(containerResource && {
      containerResource: {
        name: containerResource.name,
        container: containerResource.container,
        target: resourceTarget(containerResource),
      },
    }),
    ...(external && {
      external: {
        metric: identifierOf(external.metricName, external.metricSelector),
        target: {
          type: external.targetValue === undefined ? 'AverageValue' : 'Value',
          ...(external.targetValue !== undefined && { value: external.targetValue }),
          ...(external.targetAverageValue !== undefined && { averageValue: external.targetAverageValue }),
        },
      },
    }),
  };
}

/** Returns the metric as v1 has it. Members that are undefined are omitted from the text. */
function specToV1({ type, object, pods, resource, containerResource, external }: MetricSpec) {
  return {
    type,
    object: object && {
      target: referenceOf(object.describedObject),
      metricName: object.metric.name,
      targetValue: object.target.value ?? '0',
      selector: object.metric.selector,
      averageValue: object.target.averageValue,
    },
    pods: pods && { metricName: pods.metric.name, targetAverageValue: pods.target.averageValue ?? '0', selector: pods.metric.selector },
    resource: resource && resourceSpecToV1(resource),
    containerResource: containerResource && { ...resourceSpecToV1(containerResource), container: containerResource.container },
    external: external && {
      metricName: external.metric.name,
      metricSelector: external.metric.selector,
      targetValue: external.target.value,
      targetAverageValue: external.target.averageValue,
    },
  };
}
const referenceOf = ({ kind, name, apiVersion }: CrossVersionObjectReference) => ({ kind, name, apiVersion });
const resourceSpecToV1 = ({ name, target }: { readonly name: string; readonly target: MetricTarget }) => ({
  name,
  targetAverageUtilization: target.averageUtilization,
  targetAverageValue: target.averageValue,
});

const resourceCurrent = ({ currentAverageUtilization, currentAverageValue }: z.infer<typeof resourceStatus>) => ({
  averageValue: currentAverageValue,
  ...(currentAverageUtilization !== undefined && { averageUtilization: currentAverageUtilization }),
});

function statusToV2({ type, object, pods, resource, containerResource, external }: MetricStatusV1): MetricStatus {
  return {
    type,
    ...(object && {
      object: {
        describedObject: object.target,
        metric: identifierOf(object.metricName, object.selector),
        current: { value: object.currentValue, ...(object.averageValue !== undefined && { averageValue: object.averageValue }) },
      },
    }),
    ...(pods && { pods: { metric: identifierOf(pods.metricName, pods.selector), current: { averageValue: pods.currentAverageValue } } }),
    ...(resource && { resource: { name: resource.name, current: resourceCurrent(resource) } }),
    ...(containerResource && {
      containerResource: {
        name: containerResource.name,
        container: containerResource.container,
        current: resourceCurrent(containerResource),
      },
    }),
    ...(external && {
      external: {
        metric: identifierOf(external.metricName, external.metricSelector),
        current: {
          value: external.currentValue,
          ...(external.currentAverageValue !== undefined && { averageValue: external.currentAverageValue }),
        },
      },
    }),
  };
}

function statusToV1({ type, object, pods, resource, containerResource, external }: MetricStatus) {
  const ofResource = ({ name, current }: NonNullable<typeof resource>) => ({
    name,
    currentAverageUtilization: current.averageUtilization,
    currentAverageValue: current.averageValue ?? '0',
  });
  return {
    type,
    object: object && {
      target: referenceOf(object.describedObject),
      metricName: object.metric.name,
      currentValue: object.current.value ?? '0',
      selector: object.metric.selector,
      averageValue: object.current.averageValue,
    },
    pods: pods && { metricName: pods.metric.name, currentAverageValue: pods.current.averageValue ?? '0', selector: pods.metric.selector },
    resource: resource && ofResource(resource),
    containerResource: containerResource && { ...ofResource(containerResource), container: containerResource.container },
    external: external && {
      metricName: external.metric.name,
      metricSelector: external.metric.selector,
      currentValue: external.current.value ?? '0',
      currentAverageValue: external.current.averageValue,
    },
  };
}

/** Returns the rules in the form of the internal type, whose members have no JSON names: upstream encodes it in the annotation. */
const internalRules = ({ stabilizationWindowSeconds, selectPolicy, policies, tolerance }: HPAScalingRules) => ({
  StabilizationWindowSeconds: stabilizationWindowSeconds ?? null,
  SelectPolicy: selectPolicy ?? null,
  Policies: policies?.map(({ type, value, periodSeconds }) => ({ Type: type, Value: value, PeriodSeconds: periodSeconds })) ?? null,
  Tolerance: tolerance ?? null,
});

/** The text of the annotation `autoscaling.alpha.kubernetes.io/metrics`. */
export const metricSpecs = {
  parse: (annotation: string | undefined): readonly MetricSpec[] | undefined => parse(z.array(metricSpec), annotation)?.map(specToV2),
  format: (metrics: readonly MetricSpec[]): string => format(metrics.map(specToV1)),
};

/** The text of the annotation `autoscaling.alpha.kubernetes.io/current-metrics`. */
export const metricStatuses = {
  parse: (annotation: string | undefined): readonly MetricStatus[] | undefined => parse(z.array(metricStatus), annotation)?.map(statusToV2),
  format: (metrics: readonly MetricStatus[]): string => format(metrics.map(statusToV1)),
};

/** The text of the annotation `autoscaling.alpha.kubernetes.io/conditions`. */
export const conditions = {
  parse: (annotation: string | undefined) => parse(z.array(condition), annotation),
  format: (all: readonly HorizontalPodAutoscalerCondition[]): string =>
    format(all.map(({ type, status, lastTransitionTime, reason, message }) => ({ type, status, lastTransitionTime, reason, message }))),
};

/** The text of the annotation `autoscaling.alpha.kubernetes.io/behavior`. */
export const behaviors = {
  parse: (annotation: string | undefined) => parse(behavior, annotation),
  format: ({ scaleUp, scaleDown }: HorizontalPodAutoscalerBehavior): string =>
    format({ ScaleUp: scaleUp ? internalRules(scaleUp) : null, ScaleDown: scaleDown ? internalRules(scaleDown) : null }),
};
