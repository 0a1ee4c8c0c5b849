import { configMaps, namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isNamespaceTerminating } from '../pod-template.ts';

const name = 'kube-root-ca.crt';
const annotations = {
  'kubernetes.io/description':
    'Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.',
};

/** Publishes the cluster's CA in every namespace, so that pods can verify the API server. */
export default Controllers.plugin({
  id: 'controller-root-ca',
  declares: { loop: 'root-ca-cert-publisher' },
  config: z.strictObject({}),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys }) {
    const all = informers.of(namespaces);
    const published = informers.of(configMaps, { fieldSelector: `metadata.name=${name}` });
    return {
      name: 'root-ca-cert-publisher',
      watches: [
        watch(all, ({ metadata }) => [metadata?.name ?? '']),
        watch(published, ({ metadata }) => (metadata?.name === name ? [metadata.namespace ?? ''] : [])),
      ],
      async reconcile(namespace, { client }) {
        const found = all.get(namespace);
        if (found === undefined || found.metadata?.deletionTimestamp !== undefined || found.status?.phase === 'Terminating') return;
        const present = published.get(`${namespace}/${name}`);
        const data = { 'ca.crt': keys.caBundle };
        if (present?.data?.['ca.crt'] === data['ca.crt'] && Object.keys(present.data).length === 1) return;
        try {
          if (present === undefined)
            await client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name, annotations }, data });
          else
            await client.update(configMaps, {
              ...present,
              apiVersion: 'v1',
              kind: 'ConfigMap',
              metadata: { ...present.metadata, annotations: { ...present.metadata?.annotations, ...annotations } },
              data,
            });
        } catch (error) {
          if (!isStatus(error, 'AlreadyExists', 'NotFound') && !isNamespaceTerminating(error)) throw error;
        }
      },
    };
  },
});
