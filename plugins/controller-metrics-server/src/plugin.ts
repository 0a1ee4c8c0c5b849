import { configMaps, nodes as nodeResource, pods as podResource } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { z } from 'zod';
import { MetricsController } from './metrics-controller.ts';

/** The rules for the objects of `apiServiceObjects`. A ClusterRole grants only what its author holds. */
const rules = [
  'create | core | services',
  'create | discovery.k8s.io | endpointslices',
  'create | apiregistration.k8s.io | apiservices',
  'create | rbac.authorization.k8s.io | clusterroles',
  'get,update | core | services | metrics-server',
  'get,update | discovery.k8s.io | endpointslices | metrics-server',
  'get,update | apiregistration.k8s.io | apiservices | v1beta1.metrics.k8s.io',
  'get,update | rbac.authorization.k8s.io | clusterroles | system:aggregated-metrics-reader',
  'get,list,watch | metrics.k8s.io | pods,nodes',
];

/** Scrapes resource metrics from kubelets and serves them as the API group `metrics.k8s.io` through the API server. */
export default Controllers.plugin({
  id: 'controller-metrics-server',
  declares: { loop: 'metrics-server', rules: rules.join(';') },
  config: z.strictObject({
    /** The period between two scrapes of a kubelet, in seconds. */
    resolutionSeconds: z.number().min(1).max(3600).default(15),
    timeoutSeconds: z.number().positive().max(60).default(10),
    /** The address at which the API server reaches this process; by default the address of the API server. */
    address: z.string().min(1).optional(),
    /** Port 0 selects a free port. */
    port: z.int().min(0).max(65_535).default(0),
  }),
  needs: { informers: Informers, keys: Keys, cluster: Cluster },
  create({ config, informers, keys, cluster }, { clock, log }) {
    return new MetricsController({
      nodes: informers.forResource(nodeResource),
      pods: informers.forResource(podResource),
      authentication: informers.forResource(configMaps, {
        namespace: 'kube-system',
        fieldSelector: 'metadata.name=extension-apiserver-authentication',
      }),
      keys,
      host: config.address ?? new URL(cluster.serverUrl).hostname.replace(/^\[|\]$/g, ''),
      port: config.port,
      resolutionMs: config.resolutionSeconds * 1000,
      timeoutMs: config.timeoutSeconds * 1000,
      clock,
      log,
    });
  },
});
