import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Service } from '@oarlock/api/types/core-v1';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';

/**
 * Resolves the Service of a webhook to its external name or to one of its ready endpoints. Endpoints are called directly, because the API
 * server may run on a machine that does not route Service addresses.
 * @throws Error if the Service has no endpoint
 */
export function resolveWebhookService(
  registry: RegistryDependencies,
  namespace: string,
  name: string,
  port: number,
): { readonly host: string; readonly port: number } {
  const service = registry.servedKind('', 'v1', 'services').cache.get(`${namespace}/${name}`)?.object as Service | undefined;
  if (service === undefined) throw new Error(`service "${name}" not found`);
  if (service.spec?.type === 'ExternalName') return { host: service.spec.externalName ?? '', port };
  const declared = service.spec?.ports?.find((candidate) => candidate.port === port);
  if (declared === undefined) throw new Error(`no service port ${port} found for service "${name}"`);
  const found: { readonly host: string; readonly port: number }[] = [];
  for (const { object } of registry.servedKind('discovery.k8s.io', 'v1', 'endpointslices').cache.select({
    namespace,
    key: undefined,
    indexed: undefined,
    matches: ({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === name,
  })) {
    const { ports, endpoints } = object as EndpointSlice;
    const target = (ports ?? []).find((candidate) => (candidate.name ?? '') === (declared.name ?? ''))?.port;
    if (target === undefined) continue;
    for (const { addresses, conditions } of endpoints ?? [])
      if (conditions?.ready !== false && addresses[0] !== undefined) found.push({ host: addresses[0], port: target });
  }
  const chosen = found[Math.floor(registry.random.next() * found.length)];
  if (chosen === undefined) throw new Error(`no endpoints available for service "${name}"`);
  return chosen;
}
