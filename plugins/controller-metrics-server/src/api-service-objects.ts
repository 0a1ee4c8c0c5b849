import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { apiServices, clusterRoles, endpointSlices, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { isIP, isIPv6 } from 'node:net';
import type { Client } from '@oarlock/spi/client';
import { group, version } from './metrics-api.ts';

export const namespace = 'kube-system';
export const service = 'metrics-server';
const labels = { 'k8s-app': 'metrics-server' };
const metadata = { name: service, namespace, labels };

/**
 * Returns true for an address that an EndpointSlice must not contain. The Service then has the type ExternalName, which only the API server on this
 * machine can resolve.
 */
const isLocalAddress = (host: string): boolean => isIP(host) === 0 || host.startsWith('127.') || host === '::1';

/** Returns the objects through which the API server finds the metrics API: a Service, an EndpointSlice and an APIService. */
export function apiServiceObjects(
  host: string,
  port: number,
  caBundle: string,
): readonly { readonly resource: Resource; readonly object: KubeObject }[] {
  const near = isLocalAddress(host);
  const spec = near
    ? { type: 'ExternalName', externalName: isIPv6(host) ? 'localhost' : host }
    : { type: 'ClusterIP', ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: port }] };
  const objects: { resource: Resource; object: KubeObject & Readonly<Record<string, unknown>> }[] = [
    { resource: services, object: { apiVersion: 'v1', kind: 'Service', metadata, spec } },
    {
      resource: apiServices,
      object: {
        apiVersion: 'apiregistration.k8s.io/v1',
        kind: 'APIService',
        metadata: { name: `${version}.${group}`, labels },
        spec: {
          group,
          version,
          groupPriorityMinimum: 100,
          versionPriority: 100,
          service: { namespace, name: service, port: near ? port : 443 },
          caBundle: Buffer.from(caBundle).toString('base64'),
        },
      },
    },
    {
      resource: clusterRoles,
      object: {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: {
          name: 'system:aggregated-metrics-reader',
          labels: {
            ...labels,
            'rbac.authorization.k8s.io/aggregate-to-admin': 'true',
            'rbac.authorization.k8s.io/aggregate-to-edit': 'true',
            'rbac.authorization.k8s.io/aggregate-to-view': 'true',
          },
        },
        rules: [{ apiGroups: [group], resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] }],
      },
    },
  ];
  if (!near)
    objects.push({
      resource: endpointSlices,
      object: {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { ...labels, 'kubernetes.io/service-name': service } },
        addressType: isIPv6(host) ? 'IPv6' : 'IPv4',
        endpoints: [{ addresses: [host], conditions: { ready: true } }],
        ports: [{ name: 'https', port, protocol: 'TCP' }],
      },
    });
  return objects;
}

/** Creates an object, or merges `desired` into the existing object. Idempotent. */
export async function ensure(client: Client, resource: Resource, desired: KubeObject): Promise<void> {
  const { name = '', namespace: within } = desired.metadata ?? {};
  const at = { name, ...(within !== undefined && { namespace: within }) };
  const { metadata: head, ...parts } = desired;
  let present: KubeObject;
  try {
    present = await client.get(resource, at);
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    await client.create(resource, desired);
    return;
  }
  const next = {
    ...present,
    ...mergeObjects(present, parts),
    metadata: { ...present.metadata, labels: { ...present.metadata?.labels, ...head?.labels } },
  };
  if (!jsonEqual(next, present)) await client.update(resource, next);
}

/** Merges `desired` into the existing object. Fields that only the existing object has are kept. */
function mergeObjects<T>(present: unknown, desired: T): T {
  if (typeof desired !== 'object' || desired === null || typeof present !== 'object' || present === null) return desired;
  if (Array.isArray(desired)) {
    const before = Array.isArray(present) && present.length === desired.length ? present : [];
    return desired.map((each, at) => mergeObjects(before[at] as unknown, each)) as T;
  }
  const result: Record<string, unknown> = { ...(present as Record<string, unknown>) };
  for (const [key, value] of Object.entries(desired)) result[key] = mergeObjects(result[key], value);
  return result as T;
}
