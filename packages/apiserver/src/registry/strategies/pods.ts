import { copyFields } from '@oarlock/api/json/copy-fields';
import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/values/time';
import type {
  Affinity,
  Container,
  Pod,
  PodAffinityTerm,
  PodCondition,
  PodSpec,
  PodStatus,
  TopologySpreadConstraint,
} from '@oarlock/api/types/core-v1';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { specOf, statusOf, withMetadata, withFields, type Strategy, type StrategyContext, type SubresourceStrategy } from '../strategy.ts';
import { withAppArmorFields } from './pod-apparmor.ts';

type Labels = Readonly<Record<string, string>>;

const spec = (object: KubeObject) => specOf<PodSpec>(object);
const status = (object: KubeObject) => statusOf<PodStatus>(object);

/** Returns the pod with a condition set. lastTransitionTime changes only if the status of the condition changes. */
export function withCondition(
  conditions: readonly PodCondition[] | undefined,
  condition: Pick<PodCondition, 'type' | 'status' | 'reason' | 'message'>,
  now: number,
): readonly PodCondition[] {
  const old = conditions?.find(({ type }) => type === condition.type);
  const lastTransitionTime = old?.status === condition.status ? old.lastTransitionTime : formatTime(now);
  const next: PodCondition = lastTransitionTime === undefined ? condition : copyFields(condition, { lastTransitionTime });
  if (old === undefined) return [...(conditions ?? []), next];
  return (conditions ?? []).map((other) => (other === old ? next : other));
}

const extendedSelector = (
  selector: LabelSelector | undefined,
  { keys, operator }: { readonly keys: readonly string[] | undefined; readonly operator: 'In' | 'NotIn' },
  labels: Labels,
): LabelSelector | undefined => {
  const added = (keys ?? []).flatMap((key) => (Object.hasOwn(labels, key) ? [{ key, operator, values: [labels[key] ?? ''] }] : []));
  return selector === undefined || added.length === 0
    ? selector
    : { ...selector, matchExpressions: [...(selector.matchExpressions ?? []), ...added] };
};

/** Returns an affinity term whose label selector contains the pod's values of matchLabelKeys and mismatchLabelKeys (KEP-3633). */
function mergedTerm(term: PodAffinityTerm, labels: Labels): PodAffinityTerm {
  const labelSelector = extendedSelector(
    extendedSelector(term.labelSelector, { keys: term.matchLabelKeys, operator: 'In' }, labels),
    { keys: term.mismatchLabelKeys, operator: 'NotIn' },
    labels,
  );
  return labelSelector === undefined ? term : { ...term, labelSelector };
}

function mergedAffinity(affinity: Affinity, labels: Labels): Affinity {
  const merge = <T extends NonNullable<Affinity['podAffinity']>>(part: T | undefined) =>
    part && {
      ...part,
      ...(part.requiredDuringSchedulingIgnoredDuringExecution && {
        requiredDuringSchedulingIgnoredDuringExecution: part.requiredDuringSchedulingIgnoredDuringExecution.map((term) =>
          mergedTerm(term, labels),
        ),
      }),
      ...(part.preferredDuringSchedulingIgnoredDuringExecution && {
        preferredDuringSchedulingIgnoredDuringExecution: part.preferredDuringSchedulingIgnoredDuringExecution.map((term) => ({
          ...term,
          // validation reports an absent term
          podAffinityTerm: mergedTerm((term.podAffinityTerm as PodAffinityTerm | undefined) ?? { topologyKey: '' }, labels),
        })),
      }),
    };
  const podAffinity = merge(affinity.podAffinity);
  const podAntiAffinity = merge(affinity.podAntiAffinity);
  return { ...affinity, ...(podAffinity && { podAffinity }), ...(podAntiAffinity && { podAntiAffinity }) };
}

/** Returns a topology spread constraint whose label selector contains the pod's values of matchLabelKeys (KEP-3243). */
function mergedSpread(constraint: TopologySpreadConstraint, labels: Labels): TopologySpreadConstraint {
  const labelSelector = extendedSelector(constraint.labelSelector, { keys: constraint.matchLabelKeys, operator: 'In' }, labels);
  return labelSelector === undefined ? constraint : { ...constraint, labelSelector };
}

function preparePodForCreate(object: KubeObject, { now, warn }: Pick<StrategyContext, 'now' | 'warn'>): KubeObject {
  const submittedSpec = withAppArmorFields(spec(object) as PodSpec, object.metadata?.annotations, warn);
  const labels = object.metadata?.labels ?? {};
  const merged: PodSpec =
    submittedSpec.affinity === undefined && submittedSpec.topologySpreadConstraints === undefined
      ? submittedSpec
      : {
          ...submittedSpec,
          ...(submittedSpec.affinity && { affinity: mergedAffinity(submittedSpec.affinity, labels) }),
          ...(submittedSpec.topologySpreadConstraints && {
            topologySpreadConstraints: submittedSpec.topologySpreadConstraints.map((constraint) => mergedSpread(constraint, labels)),
          }),
        };
  const gated = (submittedSpec.schedulingGates?.length ?? 0) > 0;
  const newStatus: PodStatus = {
    phase: 'Pending',
    ...(gated && {
      conditions: withCondition(
        undefined,
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'SchedulingGated',
          message: 'Scheduling is blocked due to non-empty scheduling gates',
        },
        now,
      ),
    }),
    qosClass: qosClass({ ...submittedSpec, containers: submittedSpec.containers ?? [] }),
  };
  return withFields(object, { spec: merged, status: newStatus });
}

/** Returns the status with the observed generations of the old status, which older kubelets omit. */
function withKeptGenerations(next: PodStatus, old: PodStatus): PodStatus {
  const observed = next.observedGeneration ?? old.observedGeneration;
  const known = new Map((old.conditions ?? []).map((condition) => [condition.type, condition.observedGeneration]));
  const conditions = next.conditions?.map((condition) => {
    const generation = condition.observedGeneration ?? known.get(condition.type);
    return generation === undefined || condition.observedGeneration !== undefined
      ? condition
      : copyFields(condition, { observedGeneration: generation });
  });
  return copyFields(next, { ...(observed !== undefined && { observedGeneration: observed }), ...(conditions && { conditions }) });
}

const statusRules: SubresourceStrategy = {
  prepareForUpdate(object, old) {
    const { metadata: _metadata, ...rest } = object;
    const next = status(object);
    const { ownerReferences } = old.metadata ?? {};
    const { ownerReferences: _owners, deletionTimestamp: _gone, ...metadata } = object.metadata ?? {};
    const kept: PodStatus = withKeptGenerations(next, status(old));
    const qos = kept.qosClass ?? status(old).qosClass;
    return withFields(rest, {
      metadata: ownerReferences === undefined ? metadata : copyFields(metadata, { ownerReferences }),
      spec: spec(old),
      status: qos === undefined ? kept : copyFields(kept, { qosClass: qos }),
    });
  },
};

/** Returns the metadata of the old object with the uid and the resourceVersion of the new one, which are validated as preconditions. */
const withPreconditions = ({ metadata }: KubeObject, { metadata: submitted = {} }: KubeObject): KubeObject['metadata'] => ({
  ...metadata,
  ...(submitted.uid && { uid: submitted.uid }),
  resourceVersion: submitted.resourceVersion ?? '',
});

/** The strategy of pods/ephemeralcontainers, which changes the ephemeral containers and the metadata that status updates may change. */
const ephemeralContainers: SubresourceStrategy = {
  prepareForUpdate(object, old) {
    const { ephemeralContainers } = spec(object);
    const { ephemeralContainers: _before, ...rest } = spec(old);
    return withBumpedGeneration(
      {
        ...old,
        metadata: withPreconditions(old, object),
        ...{ spec: { ...rest, ...(ephemeralContainers && { ephemeralContainers }) } },
      } as KubeObject,
      old,
    );
  },
};

const resizedContainers = (
  next: readonly Container[] | undefined,
  old: readonly Container[] | undefined,
): readonly Container[] | undefined => {
  if (next === undefined || old === undefined || next.length !== old.length || next.some(({ name }, i) => name !== old[i]?.name))
    return undefined;
  return old.map((container, i) => {
    const { resources: _resources, resizePolicy: _policy, ...rest } = container;
    const { resources, resizePolicy } = next[i] ?? {};
    return { ...rest, ...(resources && { resources }), ...(resizePolicy && { resizePolicy }) };
  });
};

/**
 * The strategy of pods/resize, which changes only resources and resize policies of existing containers and the pod-level resources (KEP-1287,
 * KEP-5419).
 */
const resize: SubresourceStrategy = {
  prepareForUpdate(object, old) {
    const before = spec(old);
    const containers = resizedContainers(spec(object).containers, before.containers);
    const initContainers =
      before.initContainers === undefined ? undefined : resizedContainers(spec(object).initContainers, before.initContainers);
    // added, renamed and reordered containers are kept so that validation rejects them
    if (containers === undefined || (before.initContainers !== undefined && initContainers === undefined))
      return withBumpedGeneration(withFields(object, { status: status(old) }), old);
    return withBumpedGeneration(
      {
        ...old,
        metadata: withPreconditions(old, object),
        ...{
          spec: {
            ...before,
            containers,
            ...(initContainers && { initContainers }),
            ...(spec(object).resources !== undefined && { resources: spec(object).resources }),
          },
        },
      } as KubeObject,
      old,
    );
  },
};

function withBumpedGeneration(object: KubeObject, old: KubeObject): KubeObject {
  return withMetadata(object, { generation: (old.metadata?.generation ?? 0) + (jsonEqual(spec(object), spec(old)) ? 0 : 1) });
}

const text = (read: (pod: Pod) => string | undefined) => (object: KubeObject) => read(object as Pod) ?? '';

export const pods: Strategy = {
  fields: {
    'spec.nodeName': text(({ spec }) => spec?.nodeName),
    'spec.restartPolicy': text(({ spec }) => spec?.restartPolicy),
    'spec.schedulerName': text(({ spec }) => spec?.schedulerName),
    'spec.serviceAccountName': text(({ spec }) => spec?.serviceAccountName),
    'spec.hostNetwork': text(({ spec }) => String(spec?.hostNetwork ?? false)),
    'status.phase': text(({ status }) => status?.phase),
    'status.podIP': text(({ status }) => status?.podIPs?.[0]?.ip ?? status?.podIP),
    'status.podIPs': text(({ status }) => status?.podIPs?.[0]?.ip ?? status?.podIP),
    'status.nominatedNodeName': text(({ status }) => status?.nominatedNodeName),
  },
  indexField: 'spec.nodeName',
  returnsDeletedObject: true,
  generation: true,
  prepareForCreate: preparePodForCreate,
  subresources: { status: statusRules, ephemeralcontainers: ephemeralContainers, resize },
  gracePeriod(object, requested) {
    const { nodeName, terminationGracePeriodSeconds } = spec(object);
    const { phase } = status(object);
    if ((nodeName ?? '') === '' || phase === 'Failed' || phase === 'Succeeded') return 0;
    const period = requested ?? terminationGracePeriodSeconds ?? 0;
    return period < 0 ? 1 : period;
  },
};
