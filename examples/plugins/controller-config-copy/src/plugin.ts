import { configMaps, namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** Keeps a copy of one ConfigMap in every namespace with a label. Its keys are namespaces. */
export default Controllers.plugin({
  id: 'controller-config-copy',
  declares: { rules: 'create,update | core | configmaps' },
  config: z.strictObject({ namespace: z.string().min(1), name: z.string().min(1), label: z.string().min(1) }),
  needs: { informers: Informers },
  create({ config, informers }) {
    const { namespace: from, name, label } = config;
    const all = informers.forResource(namespaces);
    const copies = informers.forResource(configMaps, { fieldSelector: `metadata.name=${name}` });
    return {
      name: 'config-copy',
      watches: [
        watch(all, ({ metadata }) => [metadata?.name ?? '']),
        // a change of the original enqueues every namespace, a change of a copy its own
        watch(copies, ({ metadata }) =>
          metadata?.namespace === from ? all.list().map((each) => each.metadata?.name ?? '') : [metadata?.namespace ?? ''],
        ),
      ],
      async reconcile(namespace, { client }) {
        const target = all.get(namespace);
        const original = copies.get(`${from}/${name}`);
        if (namespace === from || original === undefined || target?.metadata?.labels?.[label] === undefined) return;
        if (target.metadata.deletionTimestamp !== undefined) return;
        const data = original.data ?? {};
        const present = copies.get(`${namespace}/${name}`);
        try {
          if (present === undefined)
            await client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name }, data });
          else if (JSON.stringify(present.data ?? {}) !== JSON.stringify(data)) await client.update(configMaps, { ...present, data });
        } catch (error) {
          // the cache was stale: the pending event enqueues this namespace again
          if (!isStatus(error, 'AlreadyExists', 'NotFound')) throw error;
        }
      },
    };
  },
});
