import { configMaps, namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { Informers } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';

const name = 'kube-root-ca.crt';
const annotations = {
  'kubernetes.io/description':
    'Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.',
};

/** Publishes the cluster CA in the ConfigMap `kube-root-ca.crt` of every namespace, so that pods can verify the API server. */
export default Controllers.plugin({
  id: 'controller-root-ca',
  declares: { loop: 'root-ca-cert-publisher' },
  config: z.strictObject({}),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys }) {
    const namespaceInformer = informers.forResource(namespaces);
    const configMapInformer = informers.forResource(configMaps, { fieldSelector: `metadata.name=${name}` });
    return {
      name: 'root-ca-cert-publisher',
      watches: [
        watch(namespaceInformer, ({ metadata }) => [metadata?.name ?? '']),
        watch(configMapInformer, ({ metadata }) => (metadata?.name === name ? [metadata.namespace ?? ''] : [])),
      ],
      async reconcile(namespace, { client }) {
        const namespaceObject = namespaceInformer.get(namespace);
        if (
          namespaceObject === undefined ||
          namespaceObject.metadata?.deletionTimestamp !== undefined ||
          namespaceObject.status?.phase === 'Terminating'
        )
          return;
        const existing = configMapInformer.get(`${namespace}/${name}`);
        const data = { 'ca.crt': keys.caBundle };
        if (existing?.data?.['ca.crt'] === data['ca.crt'] && Object.keys(existing.data).length === 1) return;
        try {
          if (existing === undefined)
            await client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name, annotations }, data });
          else
            await client.update(configMaps, {
              ...existing,
              apiVersion: 'v1',
              kind: 'ConfigMap',
              metadata: { ...existing.metadata, annotations: { ...existing.metadata?.annotations, ...annotations } },
              data,
            });
        } catch (error) {
          if (!isStatus(error, 'AlreadyExists', 'NotFound') && !isNamespaceTerminating(error)) throw error;
        }
      },
    };
  },
});
