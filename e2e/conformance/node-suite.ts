import { writeFile } from 'node:fs/promises';
import { beforeAll, describe, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { serviceAccountBehaviours } from './auth/service-accounts.ts';
import { kubectlBehaviours } from './cli/kubectl.ts';
import { eventBehaviours } from './instrumentation/events.ts';
import { leaveOutWhatCannotBe, noNodesOn, nodeStages, type NodeStageName } from './node-environments.ts';
import { NodeWorkbench } from './node-workbench.ts';
import { containerBehaviours } from './node/containers.ts';
import { nodeImages } from './node/images.ts';
import { objectBehaviours } from './node/objects.ts';
import { podBehaviours } from './node/pods.ts';
import { resizeBehaviours } from './node/resize.ts';
import { restartBehaviours } from './node/restarts.ts';
import { taintBehaviours } from './node/taints.ts';
import { userBehaviours } from './node/users.ts';
import { inlineVolumeBehaviours } from './storage/inline.ts';
import { volumeBehaviours } from './storage/volumes.ts';

const suites = {
  'sig-node': [containerBehaviours, podBehaviours, restartBehaviours, resizeBehaviours, userBehaviours, objectBehaviours],
  'sig-storage': [volumeBehaviours, inlineVolumeBehaviours],
  'sig-cli': [kubectlBehaviours],
  'sig-instrumentation': [eventBehaviours],
  'sig-auth': [serviceAccountBehaviours],
} as const;

/**
 * Tests have the names of behaviors of the conformance list; one may cover several. All of them share one
 * cluster and run concurrently: they mostly wait. Call it at the top of a test file.
 */
export async function nodeBehavioursOn(stage: NodeStageName): Promise<void> {
  const none = await noNodesOn(stage);
  const { rootless = false } = nodeStages[stage];
  describe.skipIf(none !== undefined)(
    `on ${rootless ? `a node ${stage}` : `two ${stage} nodes`}${none === undefined ? '' : ` (${none})`}`,
    { concurrent: true },
    () => {
      leaveOutWhatCannotBe(stage);
      const bench = NodeWorkbench.use(stage);
      beforeAll(async () => {
        const archive = bench.machine.path('images');
        await writeFile(archive, await nodeImages());
        await bench.nodes.importImages(archive);
      });
      it.skipIf(rootless)('[sig-architecture] Conformance Tests should have at least two untainted nodes', async () => {
        await bench.api.until<Item & { readonly spec: { readonly taints?: object } }>(
          'two untainted nodes',
          '/api/v1/nodes',
          (nodes) => nodes.filter(({ spec }) => spec.taints === undefined).length === 2,
        );
      });
      for (const [group, behaviours] of Object.entries(suites))
        describe(`[${group}]`, { concurrent: true }, () => {
          for (const behaviour of behaviours) behaviour(bench);
        });
      // they evict pods from the second node
      describe.skipIf(rootless)('[sig-node] when the others are done,', { sequential: true }, () => taintBehaviours(bench));
    },
  );
}
