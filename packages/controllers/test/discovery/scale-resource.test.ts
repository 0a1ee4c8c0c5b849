import { customResourceDefinitions, podDisruptionBudgets, pods } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import type { KubeObject } from '@oarlock/api/object';
import disruption from '@oarlock/controllers/apps/disruption/disruption-controller';
import { expect, it } from 'vitest';
import { at, runControllers } from '../support/running-controllers.ts';

it('the disruption controller counts the pods of a custom kind by its scale', async () => {
  const robots = resource<KubeObject>('x.io', 'v1', 'robots', 'Robot', true);
  const { api, clock } = await runControllers([disruption], {
    defaults: false,
    seed: (memory) => {
      memory.seed(customResourceDefinitions, {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: 'robots.x.io' },
        spec: {
          group: 'x.io',
          scope: 'Namespaced',
          names: { kind: 'Robot', plural: 'robots' },
          versions: [
            {
              name: 'v1',
              served: true,
              storage: true,
              subresources: { scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
            },
          ],
        },
        status: {
          conditions: [{ type: 'Established', status: 'True' }],
          acceptedNames: { kind: 'Robot', plural: 'robots' },
          storedVersions: ['v1'],
        },
      });
      memory.seed(robots, { metadata: { namespace: 'd', name: 'r', uid: 'robot' }, spec: { replicas: 5 } } as KubeObject);
      memory.seed(pods, {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          namespace: 'd',
          name: 'p',
          labels: { app: 'web' },
          ownerReferences: [{ apiVersion: 'x.io/v1', kind: 'Robot', name: 'r', uid: 'robot', controller: true }],
        },
        spec: { containers: [{ name: 'c' }] },
      });
    },
  });
  await api.client().create(podDisruptionBudgets, {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { namespace: 'd', name: 'budget' },
    spec: { maxUnavailable: 1, selector: { matchLabels: { app: 'web' } } },
  });
  await clock.settle();
  expect(api.object(podDisruptionBudgets, at('budget'))?.status).toMatchObject({ expectedPods: 5, desiredHealthy: 4 });
});
