import type { KubeObject } from '@oarlock/api/object';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import { formatTime } from '@oarlock/api/values/time';
import { specOf, withFields, type Strategy } from '../strategy.ts';

type RuleSpec = NonNullable<DeviceTaintRule['spec']>;

/**
 * Sets `timeAdded` of the taint to the time of the update that changes its effect, because the tolerations of claims count from the time of the
 * effect (KEP-5055). A caller that changes `timeAdded` as well keeps its own time.
 */
function withTimeOfEffect(object: KubeObject, old: KubeObject, now: number): KubeObject {
  const spec = specOf<RuleSpec>(object);
  const before = specOf<RuleSpec>(old).taint;
  if (spec.taint === undefined || spec.taint.effect === before?.effect || spec.taint.timeAdded !== before?.timeAdded) return object;
  return withFields(object, { spec: { ...spec, taint: { ...spec.taint, timeAdded: formatTime(now) } } });
}

export const deviceTaintRules: Strategy = {
  generation: true,
  returnsDeletedObject: true,
  prepareForUpdate: (object, old, { now }) => withTimeOfEffect(object, old, now),
};
