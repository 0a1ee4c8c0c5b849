import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { selectorFromLabels } from '@oarlock/api/selectors/label-selector';
import { pods as podResource, replicationControllers } from '@oarlock/api/resources';
import type { ReplicationController } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Cluster } from '@oarlock/spi/cluster';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { z } from 'zod';
import { addOwnerIndexes } from '../../ownership/controller-ref-manager.ts';
import { ReplicaController } from '../replica-set/replica-set-controller.ts';

const byLabel = 'selector-label';
const labelKey = (namespace: string, label: string, value: string) => `${namespace} ${label}=${value}`;
const selectorLabel = ({ metadata, spec }: ReplicationController) => {
  const [first] = Object.entries(spec?.selector ?? {});
  return first === undefined ? [] : [labelKey(metadata?.namespace ?? '', ...first)];
};

/** Runs the ReplicaSet controller for ReplicationControllers, whose selector is a plain label map. */
export default Controllers.plugin({
  id: 'controller-replication-controller',
  declares: { loop: 'replicationcontroller' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, facts: optional(Cluster) },
  create({ informers, events, facts }, { clock }) {
    const sets = addOwnerIndexes(informers.forResource(replicationControllers));
    sets.addIndexer(byLabel, selectorLabel);
    const selectorOf = ({ spec }: ReplicationController) => selectorFromLabels(spec?.selector);
    return new ReplicaController<ReplicationController>({
      kind: {
        name: 'replicationcontroller',
        resource: replicationControllers,
        selectorOf,
        candidates: (namespace, labels) =>
          Object.entries(labels ?? {}).flatMap(([label, value]) =>
            sets.byIndex(byLabel, labelKey(namespace, label, value)).filter((set) => selectorOf(set).matches(labels)),
          ),
        countsTerminating: false,
        hasDeletionCosts: new FeatureGates(facts).enabled('PodDeletionCost'),
      },
      sets,
      pods: informers.forResource(podResource),
      recorder: events.recorder('replication-controller'),
      clock,
    });
  },
});
