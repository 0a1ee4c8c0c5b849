import { configMaps } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** Watches ConfigMaps and labels them. Declares the write, and not the reads that its informers need in a thread or process of their own. */
export default Controllers.plugin({
  id: 'controller-undeclared',
  declares: { rules: 'patch | core | configmaps' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const all = informers.forResource(configMaps);
    return {
      name: 'undeclared',
      watches: [watch(all, ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(name, { client }) {
        await client.patch(configMaps, { namespace: 'default', name }, 'merge', { metadata: { labels: { seen: '' } } });
      },
    };
  },
});
