import type { ExcludedAddresses } from '@oarlock/primitives/net/excluded-addresses';
import { resolveService, type ServicePortRef } from '../../endpoints/handlers/subresources/proxy.ts';
import type { ServiceAddress } from './conversion-webhook.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';

/**
 * Returns the address of a webhook's Service: its externalName, or a ready endpoint. Endpoints are called directly, because the machine of
 * the API server may not route cluster IPs.
 * @throws Error if the Service has no endpoint, or an excluded address
 */
export function resolveWebhookService(
  registry: RegistryDependencies,
  service: ServicePortRef,
  excluded: ExcludedAddresses,
): ServiceAddress {
  const resolution = resolveService(registry, service);
  const { name, port } = service;
  switch (resolution.outcome) {
    case 'found':
      if (excluded.has(resolution.host)) throw new Error('address not allowed');
      return { host: resolution.host, port: resolution.port, lookup: excluded.lookup };
    case 'no service':
      throw new Error(`service "${name}" not found`);
    case 'no port':
      throw new Error(`no service port ${port} found for service "${name}"`);
    case 'no endpoints':
    case 'not ready':
      throw new Error(`no endpoints available for service "${name}"`);
  }
}
