import { formatTime } from '../values/time.ts';
import { atField, chain, defaults, forEachItem, type DefaultingRule } from './defaulting-rule.ts';

const taints = (taint: DefaultingRule): DefaultingRule => forEachItem('taints', taint);
/** The places of device taints, by kind. resource.k8s.io/v1beta1 has the fields of a device in `basic`. */
const placesOfTaints: Readonly<Record<string, (taint: DefaultingRule) => DefaultingRule>> = {
  DeviceTaintRule: (taint) => atField('spec', atField('taint', taint)),
  ResourceSlice: (taint) => atField('spec', forEachItem('devices', chain(taints(taint), atField('basic', taints(taint))))),
};

/** Returns the rule that sets the time of device taints without one to `now`; undefined for kinds without device taints. */
export function taintTimes(group: string, kind: string, now: number): DefaultingRule | undefined {
  if (group !== 'resource.k8s.io' || !Object.hasOwn(placesOfTaints, kind)) return undefined;
  return placesOfTaints[kind]?.(defaults({ timeAdded: formatTime(now) }));
}
