import { copyFields } from '../json/copy-fields.ts';
import { isObject } from '../json/json.ts';
import type { Schema } from './schema.ts';

/**
 * Go struct fields that JSON always contains, even if empty: structs without a pointer, and numbers and strings without `omitempty`. Go
 * clients send them back, and clients in other languages rely on required fields. By definition, and by `group/version.Definition` where
 * versions differ. Not listed: fields without which an object is invalid, and `nullFields`.
 */
export const nonOmittedFields: Readonly<Record<string, string>> = {
  CSIDriver: 'spec',
  CertificateSigningRequest: 'status',
  Container: 'resources',
  ContainerStatus: 'image imageID lastState name ready restartCount state',
  ControllerRevision: 'revision',
  CronJob: 'status',
  DaemonEndpoint: 'Port',
  DaemonSet: 'status',
  DaemonSetSpec: 'updateStrategy',
  DaemonSetStatus: 'currentNumberScheduled desiredNumberScheduled numberMisscheduled numberReady',
  Deployment: 'status',
  DeploymentSpec: 'strategy',
  Endpoint: 'conditions',
  EphemeralContainer: 'resources',
  'core/v1.Event': 'reportingComponent reportingInstance source',
  'events.k8s.io/v1.Event': 'deprecatedSource regarding',
  FlowSchema: 'status',
  HorizontalPodAutoscaler: 'status',
  'autoscaling/v1.HorizontalPodAutoscalerStatus': 'currentReplicas desiredReplicas',
  'autoscaling/v2.HorizontalPodAutoscalerStatus': 'desiredReplicas',
  Ingress: 'status',
  IngressClass: 'spec',
  IngressServiceBackend: 'port',
  IngressStatus: 'loadBalancer',
  Job: 'status',
  JobTemplateSpec: 'metadata',
  Lease: 'spec',
  LimitRange: 'spec',
  Namespace: 'spec status',
  NetworkPolicy: 'spec',
  NetworkPolicySpec: 'podSelector',
  Node: 'spec status',
  NodeDaemonEndpoints: 'kubeletEndpoint',
  NodeStatus: 'daemonEndpoints nodeInfo',
  NodeSystemInfo:
    'architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID operatingSystem osImage systemUUID',
  PersistentVolume: 'status',
  PersistentVolumeClaim: 'status',
  PersistentVolumeClaimSpec: 'resources',
  PersistentVolumeClaimTemplate: 'metadata',
  Pod: 'status',
  PodDisruptionBudget: 'spec status',
  PodDisruptionBudgetStatus: 'currentHealthy desiredHealthy disruptionsAllowed expectedPods',
  PodTemplate: 'template',
  PodTemplateSpec: 'metadata spec',
  PriorityClass: 'value',
  PriorityLevelConfiguration: 'status',
  ReplicaSet: 'status',
  ReplicaSetStatus: 'replicas',
  ReplicationController: 'status',
  ReplicationControllerStatus: 'replicas',
  ResourceClaim: 'status',
  ResourceClaimTemplateSpec: 'metadata',
  ResourceFieldSelector: 'divisor',
  ResourceQuota: 'spec status',
  Service: 'status',
  ServiceCIDR: 'status',
  ServiceStatus: 'loadBalancer',
  StatefulSet: 'status',
  StatefulSetOrdinals: 'start',
  StatefulSetSpec: 'serviceName updateStrategy',
  StatefulSetStatus: 'availableReplicas replicas',
  StorageVersion: 'status',
  StorageVersionMigration: 'status',
  ValidatingAdmissionPolicy: 'status',
  VolumeAttachment: 'status',
  VolumeAttachmentStatus: 'attached',
};

/** Fields that Go writes as null if they are empty: lists without `omitempty`, and times without a pointer. */
const nullFields: Readonly<Record<string, string>> = {
  APIServiceCondition: 'lastTransitionTime',
  CertificateSigningRequestCondition: 'lastTransitionTime lastUpdateTime',
  ContainerStateRunning: 'startedAt',
  ContainerStateTerminated: 'finishedAt startedAt',
  'core/v1.Event': 'eventTime firstTimestamp lastTimestamp',
  'core/v1.EventSeries': 'lastObservedTime',
  CustomResourceDefinitionCondition: 'lastTransitionTime',
  DaemonSetCondition: 'lastTransitionTime',
  DeploymentCondition: 'lastTransitionTime lastUpdateTime',
  'discovery.k8s.io/v1.EndpointSlice': 'endpoints ports',
  'events.k8s.io/v1.Event': 'deprecatedFirstTimestamp deprecatedLastTimestamp',
  FlowSchemaCondition: 'lastTransitionTime',
  'autoscaling/v2.HorizontalPodAutoscalerCondition': 'lastTransitionTime',
  'autoscaling/v2.HorizontalPodAutoscalerStatus': 'currentMetrics',
  JobCondition: 'lastProbeTime lastTransitionTime',
  NamespaceCondition: 'lastTransitionTime',
  NodeCondition: 'lastHeartbeatTime lastTransitionTime',
  PersistentVolumeClaimCondition: 'lastProbeTime lastTransitionTime',
  PodCondition: 'lastProbeTime lastTransitionTime',
  PriorityLevelConfigurationCondition: 'lastTransitionTime',
  ReplicaSetCondition: 'lastTransitionTime',
  ReplicationControllerCondition: 'lastTransitionTime',
  StatefulSetCondition: 'lastTransitionTime',
  StorageVersionCondition: 'lastTransitionTime',
  VolumeError: 'time',
};

/** Returns true if Go writes the empty field as null. */
export const isNullField = (struct: Schema, field: string): boolean => namesOf(struct, nullFields).includes(field);

type Fields = Readonly<Record<string, unknown>>;
interface Part {
  readonly key: string;
  readonly form: 'struct' | 'list' | 'map';
  readonly plan: Plan;
}
/** How to complete one struct: the fields to add and the fields to descend into. */
interface Plan {
  readonly zeros: readonly (readonly [key: string, zero: unknown])[];
  /** Lists that are null if they are empty. */
  readonly nullLists: readonly string[];
  readonly parts: readonly Part[];
}

const plans = new WeakMap<Schema, Plan>();
const making = new Set<string>();
const nothing: Plan = { zeros: [], nullLists: [], parts: [] };

function namesOf({ name = '' }: Schema, table: Readonly<Record<string, string>>): readonly string[] {
  const key = Object.hasOwn(table, name) ? name : name.slice(name.lastIndexOf('.') + 1);
  return Object.hasOwn(table, key) ? (table[key] ?? '').split(' ') : [];
}

/** Returns the empty value of a type that Go never omits. */
function zeroOf(schema: Schema): unknown {
  if (schema.properties !== undefined) return zeroValueOf(schema);
  if (schema.type === 'boolean') return false;
  return schema.type === 'string' ? (schema.format === 'quantity' ? '0' : '') : 0;
}

function planOf(schema: Schema): Plan {
  const known = plans.get(schema);
  if (known !== undefined) return known;
  const { name = '', properties } = schema;
  // a recursive schema (JSONSchemaProps) has none of these fields
  if (properties === undefined || making.has(name)) return nothing;
  making.add(name);
  const parts: Part[] = [];
  for (const [key, property] of properties) {
    const [form, inner] =
      property.properties !== undefined
        ? (['struct', property] as const)
        : property.items?.properties !== undefined
          ? (['list', property.items] as const)
          : (['map', property.additionalProperties] as const);
    const plan = inner === undefined ? nothing : planOf(inner);
    if (plan.zeros.length > 0 || plan.parts.length > 0) parts.push({ key, form, plan });
  }
  making.delete(name);
  const zeros = namesOf(schema, nonOmittedFields).flatMap((key) => {
    const property = properties.get(key);
    return property === undefined ? [] : [[key, zeroOf(property)] as const];
  });
  const nulls = namesOf(schema, nullFields).filter((key) => properties.has(key));
  const plan = {
    zeros: [...zeros, ...nulls.map((key) => [key, null] as const)],
    nullLists: nulls.filter((key) => properties.get(key)?.type === 'array'),
    parts,
  };
  plans.set(schema, plan);
  return plan;
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

function fillZeros(plan: Plan, value: Fields): Fields {
  let result: Record<string, unknown> | undefined;
  for (const [key, zero] of plan.zeros) if (value[key] === undefined) (result ??= copyFields(value))[key] = zero;
  for (const key of plan.nullLists) if (isEmptyList(value[key])) (result ??= copyFields(value))[key] = null;
  for (const { key, form, plan: inner } of plan.parts) {
    const before = value[key];
    if (typeof before !== 'object' || before === null) continue;
    const after = form === 'struct' ? fillZeros(inner, before as Fields) : each(inner, form, before);
    if (after !== before) (result ??= copyFields(value))[key] = after;
  }
  return result ?? value;
}

function each(plan: Plan, form: 'list' | 'map', value: object): object {
  if (form === 'map') {
    let result: Record<string, unknown> | undefined;
    for (const [key, before] of Object.entries(value)) {
      const after = isObject(before) ? fillZeros(plan, before) : before;
      if (after !== before) (result ??= copyFields(value as Fields))[key] = after;
    }
    return result ?? value;
  }
  if (!Array.isArray(value)) return value;
  let result: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const before: unknown = value[i];
    const after = isObject(before) ? fillZeros(plan, before) : before;
    if (after !== before) (result ??= [...(value as unknown[])])[i] = after;
  }
  return result ?? value;
}

/** Returns the object with all fields that Go never omits, or the object itself if it has them. Does not change its argument. */
export function withNonOmittedFields<T extends object>(schema: Schema, value: T): T {
  return fillZeros(planOf(schema), value as Fields) as T;
}

/** Returns what Go writes for an empty struct. Frozen and shared. */
export function zeroValueOf(schema: Schema): Fields {
  const plan = planOf(schema);
  return Object.freeze(Object.fromEntries(plan.zeros)) as Fields;
}
