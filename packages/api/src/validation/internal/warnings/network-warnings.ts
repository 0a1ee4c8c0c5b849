import type { Endpoints, Service } from '../../../generated/types/core-v1.ts';
import type { EndpointSlice } from '../../../generated/types/discovery-v1.ts';
import type { Ingress, NetworkPolicy, NetworkPolicyPeer } from '../../../generated/types/networking-v1.ts';
import { addressWarnings, cidrWarnings } from './address-warnings.ts';

export function serviceWarnings({ metadata, spec = {} }: Service): readonly string[] {
  const { type, clusterIP = '', clusterIPs = [], externalIPs = [], loadBalancerIP = '', loadBalancerSourceRanges = [] } = spec;
  const warnings: string[] = [];
  const isHeadless = type === 'ClusterIP' && clusterIP === 'None';
  const isExternalName = type === 'ExternalName';
  if (metadata?.annotations !== undefined && Object.hasOwn(metadata.annotations, 'service.kubernetes.io/topology-aware-hints'))
    warnings.push(
      'annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead',
    );
  if (clusterIP !== '' && clusterIP !== 'None')
    for (const [i, address] of clusterIPs.entries()) warnings.push(...addressWarnings(`spec.clusterIPs[${i}]`, address));
  if (isHeadless) {
    if (loadBalancerIP !== '') warnings.push('spec.loadBalancerIP is ignored for headless services');
    if (externalIPs.length > 0) warnings.push('spec.externalIPs is ignored for headless services');
    if (spec.sessionAffinity !== 'None') warnings.push('spec.SessionAffinity is ignored for headless services');
  }
  for (const [i, address] of externalIPs.entries()) warnings.push(...addressWarnings(`spec.externalIPs[${i}]`, address));
  if (externalIPs.length > 0 && !isHeadless && !isExternalName)
    warnings.push('spec.externalIPs is deprecated and may no longer be implemented in some clusters');
  warnings.push(...addressWarnings('spec.loadBalancerIP', loadBalancerIP));
  for (const [i, range] of loadBalancerSourceRanges.entries()) warnings.push(...cidrWarnings(`spec.loadBalancerSourceRanges[${i}]`, range));
  if (isExternalName && externalIPs.length > 0) warnings.push('spec.externalIPs is ignored when spec.type is "ExternalName"');
  if (!isExternalName && (spec.externalName ?? '') !== '')
    warnings.push('spec.externalName is ignored when spec.type is not "ExternalName"');
  if (spec.trafficDistribution === 'PreferClose')
    warnings.push('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"');
  return warnings;
}

export const serviceStatusWarnings = ({ status }: Service): readonly string[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip = '' }, i) => addressWarnings(`status.loadBalancer.ingress[${i}]`, ip));

/** Controllers write canonical addresses, so upstream does not check their objects. */
const managedByLabel = 'endpointslice.kubernetes.io/managed-by';
const sliceControllers: ReadonlySet<string | undefined> = new Set([
  'endpointslice-controller.k8s.io',
  'endpointslicemirroring-controller.k8s.io',
]);

export function endpointsWarnings({ metadata, subsets = [] }: Endpoints): readonly string[] {
  if (metadata?.labels?.['endpoints.kubernetes.io/managed-by'] === 'endpoint-controller') return [];
  return subsets.flatMap((subset, i) =>
    (['addresses', 'notReadyAddresses'] as const).flatMap((list) =>
      (subset[list] ?? []).flatMap(({ ip = '' }, j) => addressWarnings(`subsets[${i}].${list}[${j}].ip`, ip)),
    ),
  );
}

export const addressTypeWarnings = ({ addressType }: EndpointSlice): readonly string[] =>
  addressType === 'FQDN' ? ['spec.addressType: FQDN endpoints are deprecated'] : [];

export function endpointSliceWarnings({ metadata, endpoints = [], addressType }: EndpointSlice): readonly string[] {
  if (addressType === 'FQDN' || sliceControllers.has(metadata?.labels?.[managedByLabel])) return [];
  return (endpoints ?? []).flatMap(({ addresses = [] }, i) =>
    addresses.flatMap((address, j) => addressWarnings(`endpoints[${i}].addresses[${j}]`, address)),
  );
}

const ingressClassAnnotation = 'kubernetes.io/ingress.class';
export const ingressWarnings = ({ metadata, spec }: Ingress): readonly string[] =>
  metadata?.annotations !== undefined && Object.hasOwn(metadata.annotations, ingressClassAnnotation) && spec?.ingressClassName === undefined
    ? [`annotation ${JSON.stringify(ingressClassAnnotation)} is deprecated, please use 'spec.ingressClassName' instead`]
    : [];

export const ingressStatusWarnings = ({ status }: Ingress): readonly string[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip = '' }, i) => addressWarnings(`status.loadBalancer.ingress[${i}].ip`, ip));

export function networkPolicyWarnings({ spec }: NetworkPolicy): readonly string[] {
  const peers = (path: string, list: readonly NetworkPolicyPeer[] = []) =>
    list.flatMap(({ ipBlock }, i) =>
      ipBlock === undefined
        ? []
        : [
            ...cidrWarnings(`${path}[${i}].ipBlock.cidr`, ipBlock.cidr ?? ''),
            ...(ipBlock.except ?? []).flatMap((cidr, j) => cidrWarnings(`${path}[${i}].ipBlock.except[${j}]`, cidr)),
          ],
    );
  return [
    ...(spec?.ingress ?? []).flatMap(({ from }, i) => peers(`spec.ingress[${i}].from`, from)),
    ...(spec?.egress ?? []).flatMap(({ to }, i) => peers(`spec.egress[${i}].to`, to)),
  ];
}
