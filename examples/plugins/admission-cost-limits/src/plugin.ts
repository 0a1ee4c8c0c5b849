import type { Deployment } from '@oarlock/api/types/apps-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';
import { PriceCache } from './price-cache.ts';

/** Rejects Deployments whose monthly cost exceeds the budget of their team. A price service returns the price of an instance. */
export default Admission.plugin({
  id: 'admission-cost-limits',
  config: z.strictObject({
    /** Must respond to `GET <url>/prices/<class>` with `{ "monthly": number }`. */
    url: z.url(),
    /** The monthly budget of each team, by the value of the label `team`. */
    budgets: z.record(z.string(), z.number().nonnegative()),
    timeoutMs: z.int().min(1).default(1_000),
    cacheSeconds: z.int().min(0).default(60),
  }),
  create({ config }, { clock, log }) {
    const prices = new PriceCache({ ...config, clock });
    return {
      matches: [{ resources: ['deployments.apps'], operations: ['CREATE', 'UPDATE'] }],
      async validate({ object, annotate }) {
        const { metadata, spec } = object as Deployment;
        const team = metadata?.labels?.['team'];
        const budget = team === undefined ? undefined : config.budgets[team];
        if (team === undefined || budget === undefined) return deny('the label "team" has to name a team with a budget');
        const priceClass = metadata?.annotations?.['price-class'] ?? 'small';
        const price = await prices.of(priceClass);
        if (price === undefined) return deny(`there is no price class ${JSON.stringify(priceClass)}`, { reason: 'BadRequest' });
        const cost = price * (spec?.replicas ?? 1);
        annotate('cost', String(cost));
        log.info({ team, cost }, 'price service called');
        return cost <= budget ? allow : deny(`it would cost ${cost} a month, and ${team} may spend ${budget}`);
      },
    };
  },
});
