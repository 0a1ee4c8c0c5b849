import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { KubeObject } from '@oarlock/api/object';
import { nodes } from '@oarlock/api/resources';
import type { Binding, Pod } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Admission, allow } from '@oarlock/spi/admission';
import { Cluster } from '@oarlock/spi/cluster';
import { Informers } from '@oarlock/spi/client';
import { z } from 'zod';

/** The topology labels that are copied from Nodes to pods (KEP-4742). */
const keys = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'] as const;

/**
 * Copies the topology labels of the Node to a pod when the pod is bound, or created with a node name (PodTopologyLabels). Copies none if the Node
 * does not exist.
 */
export default Admission.plugin({
  id: 'admission-pod-topology-labels',
  config: z.strictObject({}),
  needs: { informers: Informers, facts: optional(Cluster) },
  create({ informers, facts }) {
    if (!new FeatureGates(facts).enabled('PodTopologyLabelsAdmission')) return { matches: [] };
    const known = informers.forResource(nodes);
    const labelled = (object: KubeObject, node: string | undefined): KubeObject => {
      const nodeLabels = known.get(node ?? '')?.metadata?.labels ?? {};
      const held = object.metadata?.labels ?? {};
      const labels = Object.fromEntries(
        keys.flatMap((key) => (nodeLabels[key] === undefined || nodeLabels[key] === held[key] ? [] : [[key, nodeLabels[key]]])),
      );
      if (Object.keys(labels).length === 0) return object;
      return { ...object, metadata: { ...object.metadata, labels: { ...held, ...labels } } };
    };
    return {
      matches: [{ resources: ['pods', 'pods/binding'], operations: ['CREATE'] }],
      mutate({ object, subresource }) {
        if (object === undefined) return allow;
        return labelled(object, subresource === 'binding' ? (object as Binding).target?.name : (object as Pod).spec?.nodeName);
      },
    };
  },
});
