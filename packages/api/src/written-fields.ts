import { isObject } from './json.ts';
import type { Schema } from './schema.ts';

/**
 * Fields that Go writes however empty they are, since they are structs and no pointers, or numbers and texts without `omitempty`: what a
 * client in Go sends back has them, and clients of other languages hold answers against what is required. By definition, and where
 * versions disagree by `group/version.Definition`. Left out are fields without which an object is refused, and lists and times, which Go
 * writes as null.
 */
export const writtenFields: Readonly<Record<string, string>> = {
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

type Fields = Readonly<Record<string, unknown>>;
interface Part {
  readonly key: string;
  readonly form: 'struct' | 'list' | 'map';
  readonly plan: Plan;
}
/** What is to be done to one struct: fields that are put in, and fields below which there is more to do. */
interface Plan {
  readonly zeros: readonly (readonly [key: string, zero: unknown])[];
  readonly parts: readonly Part[];
}

const plans = new WeakMap<Schema, Plan>();
const making = new Set<string>();
const nothing: Plan = { zeros: [], parts: [] };

function namesOf({ name = '' }: Schema): readonly string[] {
  const key = Object.hasOwn(writtenFields, name) ? name : name.slice(name.lastIndexOf('.') + 1);
  return Object.hasOwn(writtenFields, key) ? (writtenFields[key] ?? '').split(' ') : [];
}

/** The empty value of a type that Go writes whatever it holds. */
function zeroOf(schema: Schema): unknown {
  if (schema.properties !== undefined) return emptyOf(schema);
  if (schema.type === 'boolean') return false;
  return schema.type === 'string' ? (schema.format === 'quantity' ? '0' : '') : 0;
}

function planOf(schema: Schema): Plan {
  const known = plans.get(schema);
  if (known !== undefined) return known;
  const { name = '', properties } = schema;
  // a schema that contains itself (JSONSchemaProps) has none of these fields
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
  const zeros = namesOf(schema).flatMap((key) => {
    const property = properties.get(key);
    return property === undefined ? [] : [[key, zeroOf(property)] as const];
  });
  const plan = { zeros, parts };
  plans.set(schema, plan);
  return plan;
}

function filled(plan: Plan, value: Fields): Fields {
  let result: Record<string, unknown> | undefined;
  for (const [key, zero] of plan.zeros) if (value[key] === undefined) (result ??= { ...value })[key] = zero;
  for (const { key, form, plan: inner } of plan.parts) {
    const before = value[key];
    if (typeof before !== 'object' || before === null) continue;
    const after = form === 'struct' ? filled(inner, before as Fields) : each(inner, form, before);
    if (after !== before) (result ??= { ...value })[key] = after;
  }
  return result ?? value;
}

function each(plan: Plan, form: 'list' | 'map', value: object): object {
  if (form === 'map') {
    let result: Record<string, unknown> | undefined;
    for (const [key, before] of Object.entries(value)) {
      const after = isObject(before) ? filled(plan, before) : before;
      if (after !== before) (result ??= { ...value })[key] = after;
    }
    return result ?? value;
  }
  if (!Array.isArray(value)) return value;
  let result: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const before: unknown = value[i];
    const after = isObject(before) ? filled(plan, before) : before;
    if (after !== before) (result ??= [...(value as unknown[])])[i] = after;
  }
  return result ?? value;
}

/** The object with all fields that Go always writes; itself when it has them. Never changes its argument. */
export function withWrittenFields<T extends object>(schema: Schema, value: T): T {
  return filled(planOf(schema), value as Fields) as T;
}

/** What Go writes of a struct that nothing was put into. Frozen, and shared. */
export function emptyOf(schema: Schema): Fields {
  const plan = planOf(schema);
  return Object.freeze(Object.fromEntries(plan.zeros)) as Fields;
}
