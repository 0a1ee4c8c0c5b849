import type { KubeObject } from '@oarlock/api/object';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestServer } from '../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const statefulSets = { group: 'apps', version: 'v1', resource: 'statefulsets', kind: 'StatefulSet', namespaced: true };

describe('a new StatefulSet', () => {
  it('loses maxUnavailable, because the feature gate MaxUnavailableStatefulSet is off', async () => {
    const created = await server.create(statefulSets, {
      kind: 'StatefulSet',
      apiVersion: 'apps/v1',
      metadata: { name: 'x' },
      spec: {
        selector: { matchLabels: { app: 'a' } },
        template: { metadata: { labels: { app: 'a' } }, spec: { containers: [{ name: 'c', image: 'i' }] } },
        updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 1, maxUnavailable: 2 } },
      },
    } as KubeObject);
    expect((created as StatefulSet).spec?.updateStrategy?.rollingUpdate).toEqual({ partition: 1 });
  });
});
