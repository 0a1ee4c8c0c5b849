import type { KubeObject } from '@oarlock/api/object';
import { priorityClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import { allow, deny, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client, Informer } from '@oarlock/spi/client';

const lowerPreemptionPolicy = 'PreemptLowerPriority';

/** The object with its priority, or a denial. It is a promise if the PriorityClass has to be read from the API server. */
type Resolution<T> = T | AdmissionDecision | Promise<T | AdmissionDecision>;

/** Resolves the PriorityClasses of new pods and PodGroups. */
export class PriorityResolver {
  readonly #client: Client;
  readonly #classes: Informer<PriorityClass>;

  constructor(client: Client, classes: Informer<PriorityClass>) {
    this.#client = client;
    this.#classes = classes;
  }

  resolvePod(pod: Pod): Resolution<Pod> {
    const name = pod.spec?.priorityClassName ?? '';
    return name === '' ? withPodPriority(pod, this.#defaultClass()) : this.#class(name).then((found) => withPodPriority(pod, found));
  }

  resolvePodGroup(group: PodGroup): Resolution<PodGroup> {
    const name = group.spec.priorityClassName ?? '';
    return name === ''
      ? withGroupPriority(group, this.#defaultClass())
      : this.#class(name).then((found) => withGroupPriority(group, found));
  }

  /** Denies a default PriorityClass if another default PriorityClass exists. */
  async checkOnlyDefault(defaultClass: KubeObject | undefined): Promise<AdmissionDecision> {
    const { items } = await this.#client.list(priorityClasses);
    const other = items.find(({ globalDefault, metadata }) => globalDefault === true && metadata?.name !== defaultClass?.metadata?.name);
    return other === undefined
      ? allow
      : deny(`PriorityClass ${other.metadata?.name ?? ''} is already marked as default. Only one default can exist`);
  }

  async #class(name: string): Promise<PriorityClass | undefined> {
    const cached = this.#classes.get(name);
    if (cached !== undefined) return cached;
    try {
      return await this.#client.get(priorityClasses, { name });
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Returns the default PriorityClass; undefined if there is none. If several exist for a moment, returns the one with the lowest value. */
  #defaultClass(): PriorityClass | undefined {
    return this.#classes
      .list()
      .filter(({ globalDefault }) => globalDefault === true)
      .reduce<PriorityClass | undefined>(
        (least, each) => (least === undefined || (each.value ?? 0) < (least.value ?? 0) ? each : least),
        undefined,
      );
  }
}

function withPodPriority(pod: Pod, found: PriorityClass | undefined): Pod | AdmissionDecision {
  const { spec } = pod;
  if (spec === undefined) return pod;
  const name = spec.priorityClassName ?? '';
  if (name !== '' && found === undefined) return deny(`no PriorityClass with name ${name} was found`);
  const priority = found?.value ?? 0;
  const preemptionPolicy = found?.preemptionPolicy ?? lowerPreemptionPolicy;
  if (spec.priority !== undefined && spec.priority !== priority)
    return deny(
      `the integer value of priority (${spec.priority}) must not be provided in pod spec; priority admission controller computed ${priority} from the given PriorityClass name`,
    );
  if (spec.preemptionPolicy !== undefined && spec.preemptionPolicy !== preemptionPolicy)
    return deny(
      `the string value of PreemptionPolicy (${spec.preemptionPolicy}) must not be provided in pod spec; priority admission controller computed ${preemptionPolicy} from the given PriorityClass name`,
    );
  const priorityClassName = name === '' ? found?.metadata?.name : name;
  if (
    spec.priority === priority &&
    spec.preemptionPolicy === preemptionPolicy &&
    (spec.priorityClassName ?? '') === (priorityClassName ?? '')
  )
    return pod;
  return { ...pod, spec: { ...spec, priority, preemptionPolicy, ...(priorityClassName !== undefined && { priorityClassName }) } };
}

function withGroupPriority(group: PodGroup, found: PriorityClass | undefined): PodGroup | AdmissionDecision {
  const { spec } = group;
  const name = spec.priorityClassName ?? '';
  if (name !== '' && found === undefined) return deny(`no PriorityClass with name ${name} was found`);
  const priority = found?.value ?? 0;
  if (spec.priority !== undefined && spec.priority !== priority)
    return deny(
      `the integer value of priority (${spec.priority}) must not be provided in pod group spec; priority admission controller computed ${priority} from the given PriorityClass name`,
    );
  const priorityClassName = name === '' ? found?.metadata?.name : name;
  if (spec.priority === priority && name === (priorityClassName ?? '')) return group;
  return { ...group, spec: { ...spec, priority, ...(priorityClassName !== undefined && { priorityClassName }) } };
}

/** Returns the updated pod, with the old pod's priority fields if an old client omitted them. */
export function withOldPriority(pod: Pod, old: Pod | undefined): Pod {
  const { spec } = pod;
  const before = old?.spec;
  if (spec === undefined || before === undefined) return pod;
  const { priority = before.priority, preemptionPolicy = before.preemptionPolicy } = spec;
  if (priority === spec.priority && preemptionPolicy === spec.preemptionPolicy) return pod;
  return {
    ...pod,
    spec: { ...spec, ...(priority !== undefined && { priority }), ...(preemptionPolicy !== undefined && { preemptionPolicy }) },
  };
}
