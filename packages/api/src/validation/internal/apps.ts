import { fieldForbidden, invalid, notSupported, notSupportedInOrder, required } from '../../field/field-error.ts';
import type { DaemonSet, Deployment, DeploymentStrategy, ReplicaSet, StatefulSet } from '../../generated/types/apps-v1.ts';
import type { PodTemplateSpec, ReplicationController } from '../../generated/types/core-v1.ts';
import type { IntOrString, LabelSelector } from '../../generated/types/meta-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { selectorFromLabels, selectorFromLabelSelector, type Selector } from '../../selectors/label-selector.ts';
import { isPercent } from '../../values/names.ts';
import { ParseError } from '../../values/parse-error.ts';
import {
  sortedMap,
  validateDNSLabel,
  validateOptionalEnum,
  validateImmutable,
  addInvalid,
  validateNonNegative,
  type Errors,
} from './checks.ts';
import { validateLabelSelector } from '../meta.ts';
import { validatePodTemplate } from './core/pods/pod-spec.ts';

/** Validates a selector; returns undefined if it is invalid. */
function validateSelectorOf(errors: Errors, selector: LabelSelector | undefined, owner: string): Selector | undefined {
  if (selector === undefined) {
    errors.push(required('spec.selector'));
    return undefined;
  }
  validateLabelSelector(errors, 'spec.selector', selector);
  if (Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0) {
    errors.push(invalid('spec.selector', selector, `empty selector is invalid for ${owner}`));
  }
  try {
    return selectorFromLabelSelector(selector);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    errors.push(invalid('spec.selector', selector, 'invalid label selector'));
    return undefined;
  }
}

/** Validates a template: its pods must restart always and match the selector. */
function validateTemplate(errors: Errors, value: PodTemplateSpec | undefined, selector: Selector | undefined, owner: string): void {
  if (value === undefined) {
    errors.push(required('spec.template'));
    return;
  }
  if (selector !== undefined && !selector.empty && !selector.matches(value.metadata?.labels)) {
    errors.push(
      invalid('spec.template.metadata.labels', sortedMap(value.metadata?.labels ?? {}), '`selector` does not match template `labels`'),
    );
  }
  validatePodTemplate(errors, 'spec.template', value);
  if (value.spec?.restartPolicy !== 'Always')
    errors.push(notSupported('spec.template.spec.restartPolicy', value.spec?.restartPolicy ?? '', ['Always']));
  if (value.spec?.activeDeadlineSeconds !== undefined)
    errors.push(fieldForbidden('spec.template.spec.activeDeadlineSeconds', `activeDeadlineSeconds in ${owner} is not Supported`));
}

function validateIntOrPercent(errors: Errors, path: string, value: IntOrString | undefined): void {
  if (typeof value === 'string') addInvalid(errors, path, value, isPercent(value));
  else validateNonNegative(errors, path, value);
  if (typeof value === 'string' && /^[0-9]+%$/.test(value) && Number(value.slice(0, -1)) > 100)
    errors.push(invalid(path, value, 'must not be greater than 100%'));
}
const isZero = (value: IntOrString | undefined) => value === undefined || value === 0 || (typeof value === 'string' && /^0+%$/.test(value));

function validateStrategy(errors: Errors, { type, rollingUpdate }: DeploymentStrategy): void {
  const path = 'spec.strategy';
  if (type === 'Recreate') {
    if (rollingUpdate !== undefined)
      errors.push(fieldForbidden(`${path}.rollingUpdate`, "may not be specified when strategy `type` is 'Recreate'"));
  } else if (type !== 'RollingUpdate') errors.push(notSupported(`${path}.type`, type ?? '', ['Recreate', 'RollingUpdate']));
  else if (rollingUpdate === undefined) errors.push(required(`${path}.rollingUpdate`, 'this should be defaulted and never be nil'));
  else {
    const { maxSurge, maxUnavailable } = rollingUpdate;
    validateIntOrPercent(errors, `${path}.rollingUpdate.maxUnavailable`, maxUnavailable);
    // A surge may exceed 100%.
    if (typeof maxSurge === 'string') addInvalid(errors, `${path}.rollingUpdate.maxSurge`, maxSurge, isPercent(maxSurge));
    else validateNonNegative(errors, `${path}.rollingUpdate.maxSurge`, maxSurge);
    if (isZero(maxSurge) && isZero(maxUnavailable))
      errors.push(invalid(`${path}.rollingUpdate.maxUnavailable`, maxUnavailable, 'may not be 0 when `maxSurge` is 0'));
  }
}

export function validateDeployment(errors: Errors, { spec }: Deployment, old?: Deployment): void {
  validateNonNegative(errors, 'spec.replicas', spec?.replicas);
  const selector = validateSelectorOf(errors, spec?.selector, 'deployment');
  validateTemplate(errors, spec?.template, selector, 'ReplicaSet');
  validateStrategy(errors, spec?.strategy ?? {});
  validateNonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  validateNonNegative(errors, 'spec.revisionHistoryLimit', spec?.revisionHistoryLimit);
  const deadline = spec?.progressDeadlineSeconds;
  validateNonNegative(errors, 'spec.progressDeadlineSeconds', deadline);
  if (deadline !== undefined && deadline <= (spec?.minReadySeconds ?? 0))
    errors.push(invalid('spec.progressDeadlineSeconds', deadline, 'must be greater than minReadySeconds'));
  if (old !== undefined) validateImmutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
}

export function validateReplicaSet(errors: Errors, { spec }: ReplicaSet, old?: ReplicaSet): void {
  validateNonNegative(errors, 'spec.replicas', spec?.replicas);
  validateNonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  const selector = validateSelectorOf(errors, spec?.selector, 'deployment');
  validateTemplate(errors, spec?.template, selector, 'ReplicaSet');
  if (old !== undefined) validateImmutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
}

export function validateReplicationController(errors: Errors, { spec }: ReplicationController): void {
  validateNonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  if (Object.keys(spec?.selector ?? {}).length === 0) errors.push(required('spec.selector'));
  validateNonNegative(errors, 'spec.replicas', spec?.replicas);
  validateTemplate(errors, spec?.template, selectorFromLabels(spec?.selector), 'ReplicationController');
}

export function validateDaemonSet(errors: Errors, { spec }: DaemonSet, old?: DaemonSet): void {
  const selector = validateSelectorOf(errors, spec?.selector, 'daemonset');
  validateTemplate(errors, spec?.template, selector, 'DaemonSet');
  validateNonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  const { type, rollingUpdate } = spec?.updateStrategy ?? {};
  if (type !== 'OnDelete' && type !== 'RollingUpdate')
    errors.push(notSupportedInOrder('spec.updateStrategy.type', type ?? '', ['RollingUpdate', 'OnDelete']));
  if (type === 'RollingUpdate' && rollingUpdate === undefined) errors.push(required('spec.updateStrategy.rollingUpdate'));
  if (type === 'RollingUpdate' && rollingUpdate !== undefined) {
    const path = 'spec.updateStrategy.rollingUpdate';
    validateIntOrPercent(errors, `${path}.maxUnavailable`, rollingUpdate.maxUnavailable);
    validateIntOrPercent(errors, `${path}.maxSurge`, rollingUpdate.maxSurge);
    const [surge, unavailable] = [!isZero(rollingUpdate.maxSurge), !isZero(rollingUpdate.maxUnavailable)];
    if (surge && unavailable)
      errors.push(invalid(`${path}.maxSurge`, rollingUpdate.maxSurge, 'may not be set when maxUnavailable is non-zero'));
    if (!surge && !unavailable) errors.push(required(`${path}.maxUnavailable`, 'cannot be 0 when maxSurge is 0'));
  }
  validateNonNegative(errors, 'spec.revisionHistoryLimit', spec?.revisionHistoryLimit);
  if (old !== undefined) validateImmutable(errors, 'spec.selector', spec?.selector, old.spec?.selector);
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
/** Returns the template with a volume for each volume claim template, replacing volumes of the same name. */
function withClaims(spec: StatefulSet['spec']): PodTemplateSpec | undefined {
  const claims = new Set((spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata?.name ?? ''));
  if (spec?.template?.spec === undefined || claims.size === 0) return spec?.template;
  const kept = (spec.template.spec.volumes ?? []).filter(({ name }) => !claims.has(name));
  const added = [...claims].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  return { ...spec.template, spec: { ...spec.template.spec, volumes: [...kept, ...added] } };
}

/** Rejects a change between two exclusive values; `value` is the value in the message. */
function validateExclusiveChange(
  errors: Errors,
  path: string,
  word: string | undefined,
  value: unknown,
  [a, b]: readonly [string, string],
): void {
  if (word === undefined || word === '') errors.push(required(path));
  else if (word !== a && word !== b) errors.push(invalid(path, value, `must be '${a}' or '${b}'`));
}

export function validateStatefulSet(errors: Errors, { spec }: StatefulSet, old?: StatefulSet): void {
  validateExclusiveChange(errors, 'spec.podManagementPolicy', spec?.podManagementPolicy, spec?.podManagementPolicy, [
    'OrderedReady',
    'Parallel',
  ]);
  const { type, rollingUpdate } = spec?.updateStrategy ?? {};
  validateExclusiveChange(errors, 'spec.updateStrategy', type, spec?.updateStrategy, ['RollingUpdate', 'OnDelete']);
  const retention = spec?.persistentVolumeClaimRetentionPolicy;
  for (const when of ['whenDeleted', 'whenScaled'] as const)
    validateOptionalEnum(errors, `spec.persistentVolumeClaimRetentionPolicy.${when}`, retention?.[when], ['Delete', 'Retain']);
  // on update the existing value is not validated, because older objects may have an invalid one
  if (old === undefined && spec?.serviceName) validateDNSLabel(errors, 'spec.serviceName', spec.serviceName);
  if (type === 'OnDelete' && rollingUpdate !== undefined)
    errors.push(invalid('spec.updateStrategy.rollingUpdate', rollingUpdate, "only allowed for updateStrategy 'RollingUpdate'"));
  validateNonNegative(errors, 'spec.updateStrategy.rollingUpdate.partition', rollingUpdate?.partition);
  const maxUnavailable = rollingUpdate?.maxUnavailable;
  if (maxUnavailable !== undefined) {
    const path = 'spec.updateStrategy.rollingUpdate.maxUnavailable';
    if (isZero(maxUnavailable)) errors.push(invalid(path, maxUnavailable, 'cannot be 0'));
    validateIntOrPercent(errors, path, maxUnavailable);
  }
  validateNonNegative(errors, 'spec.replicas', spec?.replicas);
  validateNonNegative(errors, 'spec.minReadySeconds', spec?.minReadySeconds);
  validateNonNegative(errors, 'spec.ordinals.start', spec?.ordinals?.start);
  validateTemplate(errors, withClaims(spec), validateSelectorOf(errors, spec?.selector, 'statefulset'), 'StatefulSet');
  if (old === undefined) return;
  const put = (from: StatefulSet['spec']) =>
    Object.fromEntries(Object.entries(from ?? {}).filter(([key]) => !(changeable as readonly string[]).includes(key)));
  if (!jsonEqual(put(spec), put(old.spec))) {
    errors.push(
      fieldForbidden(
        'spec',
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
      ),
    );
  }
}
