import { LiveLookup } from '@oarlock/admission-rules/live-lookup';
import { evaluatedResources } from '@oarlock/api/quota/quota';
import { groupResource } from '@oarlock/api/resource';
import { resourceQuotas } from '@oarlock/api/resources';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { Admission, allow, type AdmissionDecision, type AdmissionRequest } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { limitedResources, nameOf, type LimitedResource } from './limited-resources.ts';
import { QuotaCharger } from './quota-charger.ts';

/** Resources that are not stored, and events, which no quota counts (DefaultIgnoredResources upstream). */
const uncounted: ReadonlySet<string> = new Set([
  ...['bindings', 'events', 'events.events.k8s.io', 'localsubjectaccessreviews.authorization.k8s.io'],
]);

/** Returns false for an update of a pod, other than of its resources, that keeps the pod in its scopes. */
function mayChangeUsage({ resource, subresource, object, old }: AdmissionRequest): boolean {
  if (subresource !== '' || groupResource(resource) !== 'pods') return true;
  const hasDeadline = (pod: Pod | undefined) => pod?.spec?.activeDeadlineSeconds !== undefined;
  return hasDeadline(object) !== hasDeadline(old);
}

/** Enforces the ResourceQuotas of namespaces (ResourceQuota). */
export default Admission.plugin({
  id: 'admission-resource-quota',
  config: z.strictObject({ limitedResources }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }, { clock, log }) {
    const rules = new Map<string, LimitedResource[]>();
    for (const rule of config.limitedResources) rules.set(nameOf(rule), [...(rules.get(nameOf(rule)) ?? []), rule]);
    const lookup = new LiveLookup({ resource: resourceQuotas, client, informers, clock });
    const charger = new QuotaCharger({ client, clock, log });
    const decide = (request: AdmissionRequest, quotas: readonly ResourceQuota[]): AdmissionDecision | Promise<AdmissionDecision> => {
      const limited = rules.get(groupResource(request.resource)) ?? [];
      return quotas.length === 0 && limited.length === 0 ? allow : charger.charge(quotas, { request, limited });
    };
    return {
      matches: [
        { resources: ['*'], operations: ['CREATE'] },
        {
          resources: [
            ...['services', 'persistentvolumeclaims', 'persistentvolumeclaims/status', 'resourceclaims.resource.k8s.io'],
            ...['pods', 'pods/resize'],
          ],
          operations: ['UPDATE'],
        },
      ],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const { namespace, resource, subresource, operation } = request;
        if (namespace === '' || (operation === 'CREATE' && subresource !== '') || uncounted.has(groupResource(resource))) return allow;
        if (operation === 'UPDATE' && !(evaluatedResources.has(groupResource(resource)) && mayChangeUsage(request))) return allow;
        const quotas = lookup.list(namespace);
        return quotas instanceof Promise ? quotas.then((found) => decide(request, found)) : decide(request, quotas);
      },
    };
  },
});
