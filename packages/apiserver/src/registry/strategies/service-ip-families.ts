import { familyOf, type IPFamily } from '@oarlock/api/net/ip-number';
import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import type { ServiceSpec } from '@oarlock/api/types/core-v1';
import type { ServiceAllocation } from './service-allocations.ts';
import { isEqual, isHeadless, type MutableServiceSpec } from './service-spec.ts';

/** Sets the IP families of a Service (KEP-563; initIPFamilyFields upstream). */
export function initIPFamilyFields({ spec, before, allocator }: ServiceAllocation): FieldError[] {
  const isHeadlessWithoutSelector = isHeadless(spec) && Object.keys(spec.selector ?? {}).length === 0;
  const policy = (spec.ipFamilyPolicy ??= before?.ipFamilyPolicy ?? (isHeadlessWithoutSelector ? 'RequireDualStack' : 'SingleStack'));
  const errors = policy === 'SingleStack' ? checkSingleStack(spec, before) : [];
  const families = requestedFamilies({ spec, before, allocator }, errors);
  if (errors.length > 0) return errors;
  if (families.length === 0) families.push(allocator.families[0] ?? 'IPv4');
  const needsSecondFamily = policy !== 'SingleStack' && families.length === 1;
  if (!isHeadlessWithoutSelector) checkConfiguredFamilies({ policy, families, available: allocator.families }, errors);
  if (needsSecondFamily && (isHeadlessWithoutSelector || allocator.families.length === 2))
    families.push(families[0] === 'IPv4' ? 'IPv6' : 'IPv4');
  spec.ipFamilies = families;
  return errors;
}

/** Removes the secondary values of a Service whose update changes it to SingleStack; returns errors for other secondary values. */
function checkSingleStack(spec: MutableServiceSpec, before: ServiceSpec | undefined): FieldError[] {
  if (before !== undefined) {
    if (isEqual(spec.clusterIPs, before.clusterIPs) && (spec.clusterIPs?.length ?? 0) > 1)
      spec.clusterIPs = spec.clusterIPs?.slice(0, 1) ?? [];
    if (isEqual(spec.ipFamilies, before.ipFamilies) && (spec.ipFamilies?.length ?? 0) > 1)
      spec.ipFamilies = spec.ipFamilies?.slice(0, 1) ?? [];
    return [];
  }
  const rejection = (values: string) =>
    invalid('spec.ipFamilyPolicy', 'SingleStack', `must be 'RequireDualStack' or 'PreferDualStack' when multiple ${values} are specified`);
  return [
    ...((spec.clusterIPs?.length ?? 0) > 1 ? [rejection('cluster IPs')] : []),
    ...((spec.ipFamilies?.length ?? 0) > 1 ? [rejection('IP families')] : []),
  ];
}

/** Returns the IP families that the client specified, in `ipFamilies` or by the addresses in `clusterIPs`. */
function requestedFamilies({ spec, allocator }: Omit<ServiceAllocation, 'context'>, errors: FieldError[]): string[] {
  const families: string[] = [...(spec.ipFamilies ?? [])];
  for (const [i, ip] of (spec.clusterIPs ?? []).entries()) {
    const family = ip === 'None' || ip === '' ? undefined : familyOf(ip);
    if (family === undefined || i < families.length) continue;
    if (allocator.families.includes(family)) families.push(family);
    else errors.push(invalid(`spec.clusterIPs[${i}]`, spec.clusterIPs, `${family} is not configured on this cluster`));
  }
  return families;
}

interface FamilyCheck {
  readonly policy: string;
  readonly families: readonly string[];
  readonly available: readonly IPFamily[];
}

function checkConfiguredFamilies({ policy, families, available }: FamilyCheck, errors: FieldError[]): void {
  if (policy === 'RequireDualStack' && available.length < 2)
    errors.push(invalid('spec.ipFamilyPolicy', policy, 'this cluster is not configured for dual-stack services'));
  for (const [i, family] of families.entries())
    if (!available.includes(family as IPFamily)) errors.push(invalid(`spec.ipFamilies[${i}]`, family, 'not configured on this cluster'));
}
