import { namespaces, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';

/** Creates the `default` ServiceAccount in every active namespace. */
export default Controllers.plugin({
  id: 'controller-service-account',
  declares: { loop: 'serviceaccount' },
  config: z.strictObject({ names: z.array(z.string()).default(['default']) }),
  needs: { informers: Informers },
  create({ config, informers }) {
    const namespaceInformer = informers.forResource(namespaces);
    const accounts = informers.forResource(serviceAccounts);
    const names = new Set(config.names);
    return {
      name: 'serviceaccount',
      watches: [
        watch(namespaceInformer, ({ metadata }) => [metadata?.name ?? '']),
        watch(accounts, ({ metadata }) => (names.has(metadata?.name ?? '') ? [metadata?.namespace ?? ''] : [])),
      ],
      async reconcile(namespace, { client }) {
        const namespaceObject = namespaceInformer.get(namespace);
        if (
          namespaceObject === undefined ||
          namespaceObject.metadata?.deletionTimestamp !== undefined ||
          namespaceObject.status?.phase === 'Terminating'
        )
          return;
        for (const name of names) {
          if (accounts.get(`${namespace}/${name}`) !== undefined) continue;
          try {
            await client.create(serviceAccounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace, name } });
          } catch (error) {
            if (!isStatus(error, 'AlreadyExists', 'NotFound') && !isNamespaceTerminating(error)) throw error;
          }
        }
      },
    };
  },
});
