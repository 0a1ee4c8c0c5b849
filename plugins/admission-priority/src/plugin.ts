import type { KubeObject } from '@oarlock/api/object';
import { priorityClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { PodGroup } from '@oarlock/api/types/scheduling-v1alpha2';
import { Admission, allow, deny, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

const lowerPreemptionPolicy = 'PreemptLowerPriority';

/** Sets the priority of pods from their PriorityClass and allows one default class (Priority). */
export default Admission.plugin({
  id: 'admission-priority',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const classes = informers.forResource(priorityClasses);
    const named = async (name: string): Promise<PriorityClass | undefined> => {
      const cached = classes.get(name);
      if (cached !== undefined) return cached;
      try {
        return await client.get(priorityClasses, { name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      }
    };
    /** Returns the default class; the one with the lowest value if several exist for a moment. */
    const fallback = () =>
      classes
        .list()
        .filter(({ globalDefault }) => globalDefault === true)
        .reduce<PriorityClass | undefined>(
          (least, each) => (least === undefined || (each.value ?? 0) < (least.value ?? 0) ? each : least),
          undefined,
        );
    const created = (pod: Pod): Pod | AdmissionDecision | Promise<Pod | AdmissionDecision> => {
      const name = pod.spec?.priorityClassName ?? '';
      return name === '' ? ranked(pod, fallback()) : named(name).then((found) => ranked(pod, found));
    };
    const ranked = (pod: Pod, found: PriorityClass | undefined): Pod | AdmissionDecision => {
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
    };
    const rankedGroup = (group: PodGroup, found: PriorityClass | undefined): PodGroup | AdmissionDecision => {
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
    };
    const createdGroup = (group: PodGroup): PodGroup | AdmissionDecision | Promise<PodGroup | AdmissionDecision> => {
      const name = group.spec.priorityClassName ?? '';
      return name === '' ? rankedGroup(group, fallback()) : named(name).then((found) => rankedGroup(group, found));
    };
    const onlyDefault = async (defaultClass: KubeObject | undefined): Promise<AdmissionDecision> => {
      const { items } = await client.list(priorityClasses);
      const other = items.find(({ globalDefault, metadata }) => globalDefault === true && metadata?.name !== defaultClass?.metadata?.name);
      return other === undefined
        ? allow
        : deny(`PriorityClass ${other.metadata?.name ?? ''} is already marked as default. Only one default can exist`);
    };
    return {
      matches: [
        { resources: ['pods'], operations: ['CREATE', 'UPDATE'] },
        { resources: ['podgroups.scheduling.k8s.io'], operations: ['CREATE'] },
        { resources: ['priorityclasses.scheduling.k8s.io'], operations: ['CREATE', 'UPDATE'] },
      ],
      mutate({ operation, resource, object, old }) {
        if (object === undefined) return allow;
        if (resource.resource === 'podgroups') return createdGroup(object as PodGroup);
        if (resource.resource !== 'pods') return object;
        if (operation === 'CREATE') return created(object);
        // old clients omit priority fields on update
        const { spec } = object as Pod;
        const before = (old as Pod | undefined)?.spec;
        if (spec === undefined || before === undefined) return object;
        const { priority = before.priority, preemptionPolicy = before.preemptionPolicy } = spec;
        if (priority === spec.priority && preemptionPolicy === spec.preemptionPolicy) return object;
        return {
          ...object,
          spec: { ...spec, ...(priority !== undefined && { priority }), ...(preemptionPolicy !== undefined && { preemptionPolicy }) },
        };
      },
      validate({ resource, object }) {
        return resource.resource !== 'priorityclasses' || (object as PriorityClass | undefined)?.globalDefault !== true
          ? allow
          : onlyDefault(object);
      },
    };
  },
});
