import { namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** Adds a label to every namespace that lacks it. The workqueue key is the name of the namespace. */
export default Controllers.plugin({
  id: '__ID__',
  declares: { rules: 'patch | core | namespaces' },
  config: z.strictObject({ label: z.string().min(1).default('example.com/__NAME__'), value: z.string().min(1).default('managed') }),
  needs: { informers: Informers },
  create({ config: { label, value }, informers }) {
    const cache = informers.forResource(namespaces);
    return {
      name: '__NAME__',
      watches: [watch(cache, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(name, { client }) {
        const namespace = cache.get(name);
        if (namespace === undefined || namespace.metadata?.deletionTimestamp !== undefined) return;
        if (namespace.metadata?.labels?.[label] !== undefined) return;
        try {
          await client.patch(namespaces, { name }, 'merge', { metadata: { labels: { [label]: value } } });
        } catch (error) {
          // deleted in the meantime: the delete event follows
          if (!isStatus(error, 'NotFound')) throw error;
        }
      },
    };
  },
});
