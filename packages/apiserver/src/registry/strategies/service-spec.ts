import type { KubeObject } from '@oarlock/api/object';
import type { ServiceSpec } from '@oarlock/api/types/core-v1';
import { specOf } from '../strategy.ts';

/** A ServiceSpec that the steps of one write change in place. The object is a copy to which no other code has a reference. */
export type MutableServiceSpec = { -readonly [K in keyof ServiceSpec]: ServiceSpec[K] };

export const specOfService = (object: KubeObject | undefined) => specOf<ServiceSpec>(object) as ServiceSpec;
export const needsIP = ({ type }: ServiceSpec) => type !== 'ExternalName';
export const isHeadless = ({ clusterIP, clusterIPs }: ServiceSpec) => (clusterIPs?.[0] ?? clusterIP) === 'None';
export const needsPorts = ({ type }: ServiceSpec) => type === 'NodePort' || type === 'LoadBalancer';
export const needsHealthCheck = ({ type, externalTrafficPolicy }: ServiceSpec) =>
  type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
export const isEqual = (a: readonly unknown[] | undefined, b: readonly unknown[] | undefined) =>
  (a?.length ?? 0) === (b?.length ?? 0) && (a ?? []).every((item, i) => item === b?.[i]);

export const ipsOf = (spec: ServiceSpec) =>
  needsIP(spec) && !isHeadless(spec)
    ? (spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP])).filter((ip) => ip !== '')
    : [];
export const portsOf = (spec: ServiceSpec) =>
  [...new Set([...(spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0), spec.healthCheckNodePort ?? 0])].filter((port) => port !== 0);
