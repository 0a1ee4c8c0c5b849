import { fieldForbidden, invalid, notSupported, required } from '../field-error.ts';
import type { DaemonSet, Deployment, DeploymentStrategy, ReplicaSet, StatefulSet } from '../generated/types/apps-v1.ts';
import type { PodTemplateSpec, ReplicationController } from '../generated/types/core-v1.ts';
import type { IntOrString, LabelSelector } from '../generated/types/meta-v1.ts';
import { jsonEqual } from '../json.ts';
import { selectorFromLabels, selectorFromObject, type Selector } from '../label-selector.ts';
import { isPercent } from '../names.ts';
import { ParseError } from '../parse-error.ts';
import { diff } from './diff.ts';
import { dnsLabel, ifOneOf, immutable, invalidEach, nonNegative, type Errors } from './checks.ts';
import { labelSelector } from './meta.ts';
import { podTemplate } from './pod-spec.ts';

/** Checks a selector; undefined when it cannot be used any further. */
function selectorOf(errors: Errors, selector: LabelSelector | undefined, owner: string): Selector | undefined {
  if (selector === undefined) {
    errors.push(required('spec.selector'));
    return undefined;
  }
  labelSelector(errors, 'spec.selector', selector);
  if (Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0) {
    errors.push(invalid('spec.selector', selector, `empty selector is invalid for ${owner}`));
  }
  try {
    return selectorFromObject(selector);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    errors.push(invalid('spec.selector', selector, 'invalid label selector'));
    return undefined;
  }
}

/** A template whose pods run for ever and are found by the selector. */
function template(errors: Errors, value: PodTemplateSpec | undefined, selector: Selector | undefined, owner: string): void {
  if (value === undefined) {
    errors.push(required('spec.template'));
    return;
  }
  if (selector !== undefined && !selector.empty && !selector.matches(value.metadata?.labels)) {
    errors.push(invalid('spec.template.metadata.labels', value.metadata?.labels ?? {}, '`selector` does not match template `labels`'));
  }
  podTemplate(errors, 'spec.template', value);
  if (value.spec?.restartPolicy !== 'Always')
    errors.push(notSupported('spec.template.spec.restartPolicy', value.spec?.restartPolicy ?? '', ['Always']));
  if (value.spec?.activeDeadlineSeconds !== undefined)
    errors.push(fieldForbidden('spec.template.spec.activeDeadlineSeconds', `activeDeadlineSeconds in ${owner} is not Supported`));
}

function intOrPercent(errors: Errors, path: string, value: IntOrString | undefined): void {
  if (typeof value === 'string') invalidEach(errors, path, value, isPercent(value));
  else nonNegative(errors, path, value);
  if (typeof value === 'string' && /^[0-9]+%$/.test(value) && Number(value.slice(0, -1)) > 100)
    errors.push(invalid(path, value, 'must not be greater than 100%'));
}
const isZero = (value: IntOrString | undefined) => value === undefined || value === 0 || (typeof value === 'string' && /^0+%$/.test(value));

function strategy(errors: Errors, { type, rollingUpdate }: DeploymentStrategy): void {
  const path = 'spec.strategy';
  if (type === 'Recreate') {
    if (rollingUpdate !== undefined)
      errors.push(fieldForbidden(`${path}.rollingUpdate`, "may not be specified when strategy `type` is 'Recreate'"));
  } else if (type !== 'RollingUpdate') errors.push(notSupported(`${path}.type`, type ?? '', ['Recreate', 'RollingUpdate']));
  else if (rollingUpdate === undefined) errors.push(required(`${path}.rollingUpdate`, 'this should be defaulted and never be nil'));
  else {
    const { maxSurge, maxUnavailable } = rollingUpdate;
    intOrPercent(errors, `${path}.rollingUpdate.maxUnavailable`, maxUnavailable);
    // A surge over 100% is fine.
    if (typeof maxSurge === 'string') invalidEach(errors, `${path}.rollingUpdate.maxSurge`, maxSurge, isPercent(maxSurge));
    else nonNegative(errors, `${path}.rollingUpdate.maxSurge`, maxSurge);
    if (isZero(maxSurge) && isZero(maxUnavailable))
      errors.push(invalid(`${path}.rollingUpdate.maxUnavailable`, maxUnavailable, 'may not be 0 when `maxSurge` is 0'));
  }
}

export function deployment(errors: Errors, { spec }: Deployment, old?: Deployment): void {
  nonNegative(errors, 'spec.replicas', spec?.replicas);
  const selector = selectorOf(errors, spec?.selector, 'deployment');
  template(errors, spec?.template, selector, 'ReplicaSet');
  strategy(errors, spec?.strategy ?? {});
  nonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  nonNegative(errors, 'spec.revisionHistoryLimit', spec?.revisionHistoryLimit);
  const deadline = spec?.progressDeadlineSeconds;
  nonNegative(errors, 'spec.progressDeadlineSeconds', deadline);
  if (deadline !== undefined && deadline <= (spec?.minReadySeconds ?? 0))
    errors.push(invalid('spec.progressDeadlineSeconds', deadline, 'must be greater than minReadySeconds'));
  if (old !== undefined) immutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
}

export function replicaSet(errors: Errors, { spec }: ReplicaSet, old?: ReplicaSet): void {
  nonNegative(errors, 'spec.replicas', spec?.replicas);
  nonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  const selector = selectorOf(errors, spec?.selector, 'deployment');
  template(errors, spec?.template, selector, 'ReplicaSet');
  if (old !== undefined) immutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
}

export function replicationController(errors: Errors, { spec }: ReplicationController): void {
  nonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  if (Object.keys(spec?.selector ?? {}).length === 0) errors.push(required('spec.selector'));
  nonNegative(errors, 'spec.replicas', spec?.replicas);
  template(errors, spec?.template, selectorFromLabels(spec?.selector), 'ReplicationController');
}

export function daemonSet(errors: Errors, { spec }: DaemonSet, old?: DaemonSet): void {
  const selector = selectorOf(errors, spec?.selector, 'daemonset');
  template(errors, spec?.template, selector, 'DaemonSet');
  nonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  const { type, rollingUpdate } = spec?.updateStrategy ?? {};
  if (type !== 'OnDelete' && type !== 'RollingUpdate')
    errors.push(notSupported('spec.updateStrategy.type', type ?? '', ['OnDelete', 'RollingUpdate']));
  if (type === 'RollingUpdate' && rollingUpdate === undefined) errors.push(required('spec.updateStrategy.rollingUpdate'));
  if (type === 'RollingUpdate' && rollingUpdate !== undefined) {
    const path = 'spec.updateStrategy.rollingUpdate';
    intOrPercent(errors, `${path}.maxUnavailable`, rollingUpdate.maxUnavailable);
    intOrPercent(errors, `${path}.maxSurge`, rollingUpdate.maxSurge);
    const [surge, unavailable] = [!isZero(rollingUpdate.maxSurge), !isZero(rollingUpdate.maxUnavailable)];
    if (surge && unavailable)
      errors.push(invalid(`${path}.maxSurge`, rollingUpdate.maxSurge, 'may not be set when maxUnavailable is non-zero'));
    if (!surge && !unavailable) errors.push(required(`${path}.maxUnavailable`, 'cannot be 0 when maxSurge is 0'));
  }
  nonNegative(errors, 'spec.revisionHistoryLimit', spec?.revisionHistoryLimit);
  if (old !== undefined) immutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
}

const changeable = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
] as const;
/** The template as pods get it: with a volume for each claim, in place of one of the same name. */
function withClaims(spec: StatefulSet['spec']): PodTemplateSpec | undefined {
  const claims = new Set((spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata?.name ?? ''));
  if (spec?.template?.spec === undefined || claims.size === 0) return spec?.template;
  const kept = (spec.template.spec.volumes ?? []).filter(({ name }) => !claims.has(name));
  const added = [...claims].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  return { ...spec.template, spec: { ...spec.template.spec, volumes: [...kept, ...added] } };
}

/** One of two words, said in one sentence; `value` is what is shown. */
function either(errors: Errors, path: string, word: string | undefined, value: unknown, [a, b]: readonly [string, string]): void {
  if (word === undefined || word === '') errors.push(required(path));
  else if (word !== a && word !== b) errors.push(invalid(path, value, `must be '${a}' or '${b}'`));
}

export function statefulSet(errors: Errors, { spec }: StatefulSet, old?: StatefulSet): void {
  either(errors, 'spec.podManagementPolicy', spec?.podManagementPolicy, spec?.podManagementPolicy, ['OrderedReady', 'Parallel']);
  const { type, rollingUpdate } = spec?.updateStrategy ?? {};
  either(errors, 'spec.updateStrategy', type, spec?.updateStrategy, ['RollingUpdate', 'OnDelete']);
  const retention = spec?.persistentVolumeClaimRetentionPolicy;
  for (const when of ['whenDeleted', 'whenScaled'] as const)
    ifOneOf(errors, `spec.persistentVolumeClaimRetentionPolicy.${when}`, retention?.[when], ['Delete', 'Retain']);
  // those that were there before this was asked may stay
  if (old === undefined && spec?.serviceName) dnsLabel(errors, 'spec.serviceName', spec.serviceName);
  if (type === 'OnDelete' && rollingUpdate !== undefined)
    errors.push(invalid('spec.updateStrategy.rollingUpdate', rollingUpdate, "only allowed for updateStrategy 'RollingUpdate'"));
  nonNegative(errors, 'spec.updateStrategy.rollingUpdate.partition', rollingUpdate?.partition);
  nonNegative(errors, 'spec.replicas', spec?.replicas);
  nonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  nonNegative(errors, 'spec.ordinals.start', spec?.ordinals?.start);
  template(errors, withClaims(spec), selectorOf(errors, spec?.selector, 'statefulset'), 'StatefulSet');
  if (old === undefined) return;
  const put = (from: StatefulSet['spec']) =>
    Object.fromEntries(Object.entries(from ?? {}).filter(([key]) => !(changeable as readonly string[]).includes(key)));
  if (!jsonEqual(put(spec), put(old.spec))) {
    errors.push(
      fieldForbidden(
        'spec',
        `updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden\n${diff(put(old.spec), put(spec))}`,
      ),
    );
  }
}

interface Counts {
  readonly replicas?: number;
  readonly fullyLabeledReplicas?: number;
  readonly updatedReplicas?: number;
  readonly readyReplicas?: number;
  readonly availableReplicas?: number;
  readonly unavailableReplicas?: number;
  readonly observedGeneration?: number;
  readonly collisionCount?: number;
}

/** The status of Deployments, ReplicaSets and ReplicationControllers. */
export function replicaStatus(errors: Errors, status: Counts | undefined, old: Counts | undefined): void {
  if (status === undefined) return;
  for (const key of [
    'observedGeneration',
    'replicas',
    'fullyLabeledReplicas',
    'updatedReplicas',
    'readyReplicas',
    'availableReplicas',
    'unavailableReplicas',
    'collisionCount',
  ] as const)
    nonNegative(errors, `status.${key}`, status[key]);
  const replicas = status.replicas ?? 0;
  for (const key of ['fullyLabeledReplicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas'] as const) {
    if ((status[key] ?? 0) > replicas) errors.push(invalid(`status.${key}`, status[key], 'cannot be greater than status.replicas'));
  }
  if ((status.availableReplicas ?? 0) > (status.readyReplicas ?? 0))
    errors.push(invalid('status.availableReplicas', status.availableReplicas, 'cannot be greater than readyReplicas'));
  if (old?.collisionCount !== undefined && (status.collisionCount === undefined || status.collisionCount < old.collisionCount))
    errors.push(invalid('status.collisionCount', status.collisionCount, 'cannot be decremented'));
}
