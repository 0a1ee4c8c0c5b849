import { evaluatedResources, quotaUsage } from '@oarlock/api/quota/quota';
import { groupResource } from '@oarlock/api/resource';
import { resourceQuotas } from '@oarlock/api/resources';
import { Admission, allow, deny, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { limitedResources, nameOf, uncoveredLimitedResource, type LimitedResource } from './limited-resources.ts';
import { QuotaCharger } from './quota-charger.ts';

/** Enforces the ResourceQuotas of namespaces (ResourceQuota). */
export default Admission.plugin({
  id: 'admission-resource-quota',
  config: z.strictObject({ limitedResources }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }, { clock, log }) {
    const rules = new Map<string, LimitedResource[]>();
    for (const rule of config.limitedResources) rules.set(nameOf(rule), [...(rules.get(nameOf(rule)) ?? []), rule]);
    const known = informers.forResource(resourceQuotas);
    const charger = new QuotaCharger({ client, clock, log });
    return {
      matches: [
        { resources: ['*'], operations: ['CREATE'] },
        { resources: ['services', 'persistentvolumeclaims', 'pods/resize'], operations: ['UPDATE'] },
      ],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const { namespace, resource, subresource, operation } = request;
        if (namespace === '' || (operation === 'CREATE' && subresource !== '')) return allow;
        if (operation === 'UPDATE' && !evaluatedResources.has(groupResource(resource))) return allow;
        const quotas = known.list(namespace);
        const strict = rules.get(groupResource(resource));
        if (strict !== undefined && operation === 'CREATE' && request.object !== undefined) {
          const what = groupResource(resource);
          const because = uncoveredLimitedResource(strict, {
            resource: what,
            object: request.object,
            used: quotaUsage(what, request.object, clock.now()),
            quotas,
          });
          if (because !== undefined) return deny(because);
        }
        return quotas.length === 0 ? allow : charger.charge(quotas, request);
      },
    };
  },
});
