import type { FeatureGates, SwitchableGate } from '@oarlock/api/component-helpers/feature-gates';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import type { ServedKind } from './served-kind.ts';

/** A field of a feature, by its keys; `[]` stands for each element of a list. */
interface GatedField {
  readonly gate: SwitchableGate;
  readonly path: readonly string[];
  /** Returns true if the gate does not apply to a value of the field. */
  isExempt?(value: unknown): boolean;
}

const at = (gate: SwitchableGate, path: string): GatedField => ({ gate, path: path.split('.') });
const containers = ['containers', 'initContainers', 'ephemeralContainers'] as const;

/** Fields of a pod spec. */
const podFields: readonly GatedField[] = [
  at('HostnameOverride', 'hostnameOverride'),
  at('PodLevelResources', 'resources'),
  at('MatchLabelKeysInPodTopologySpread', 'topologySpreadConstraints.[].matchLabelKeys'),
  ...containers.flatMap((list) => [
    at('EnvFiles', `${list}.[].env.[].valueFrom.fileKeyRef`),
    at('ContainerRestartRules', `${list}.[].restartPolicyRules`),
    // `Always` makes a sidecar of an init container
    {
      ...at('ContainerRestartRules', `${list}.[].restartPolicy`),
      isExempt: (value: unknown) => list === 'initContainers' && value === 'Always',
    },
  ]),
];

const podSpecPaths: Readonly<Record<string, string>> = {
  pods: 'spec',
  podtemplates: 'template.spec',
  replicationcontrollers: 'spec.template.spec',
  'daemonsets.apps': 'spec.template.spec',
  'deployments.apps': 'spec.template.spec',
  'replicasets.apps': 'spec.template.spec',
  'statefulsets.apps': 'spec.template.spec',
  'jobs.batch': 'spec.template.spec',
  'cronjobs.batch': 'spec.jobTemplate.spec.template.spec',
};

const fields: ReadonlyMap<string, readonly GatedField[]> = new Map([
  ...Object.entries(podSpecPaths).map(([name, prefix]): [string, readonly GatedField[]] => [
    name,
    podFields.map((field) => ({ ...field, path: [...prefix.split('.'), ...field.path] })),
  ]),
  [
    'horizontalpodautoscalers.autoscaling',
    ['scaleUp', 'scaleDown'].map((rules) => at('HPAConfigurableTolerance', `spec.behavior.${rules}.tolerance`)),
  ],
]);

/**
 * Returns a written object without the fields of disabled features (the dropDisabledFields of upstream's strategies). The fields of a feature stay if
 * the stored object has one of them.
 */
export function withoutDisabledFields<T extends KubeObject>(
  { resource, features }: Pick<ServedKind, 'resource' | 'features'>,
  object: T,
  old?: KubeObject,
): T {
  if (features === undefined) return object;
  let result: unknown = object;
  const gated = fields.get(groupResource(resource)) ?? [];
  for (const field of gated) if (isDropped(field, { gated, features, old })) result = without(result, field.path, field);
  return result as T;
}

interface Write {
  readonly gated: readonly GatedField[];
  readonly features: FeatureGates;
  readonly old: KubeObject | undefined;
}

const isDropped = ({ gate }: GatedField, { gated, features, old }: Write): boolean =>
  !features.enabled(gate) && !gated.some((field) => field.gate === gate && has(old, field.path, field));

type Fields = Readonly<Record<string, unknown>>;
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);

function has(value: unknown, [key, ...rest]: readonly string[], field: GatedField): boolean {
  if (key === undefined) return value !== undefined && value !== null && field.isExempt?.(value) !== true;
  if (key === '[]') return Array.isArray(value) && value.some((element) => has(element, rest, field));
  return isFields(value) && has(value[key], rest, field);
}

/** Returns the value without the field; the same value if it does not contain the field. */
function without(value: unknown, path: readonly string[], field: GatedField): unknown {
  if (!has(value, path, field)) return value;
  const [key = '', ...rest] = path;
  if (key === '[]') return (value as readonly unknown[]).map((element) => without(element, rest, field));
  const { [key]: child, ...others } = value as Fields;
  return rest.length === 0 ? others : { ...others, [key]: without(child, rest, field) };
}
