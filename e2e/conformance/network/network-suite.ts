import { describe } from 'vitest';
import { leaveOutWhatCannotBe, noNodesOn, type NodeStageName } from '../node-environments.ts';
import { datagramBehaviours } from './datagrams.ts';
import { nameBehaviours } from './names.ts';
import { reachBehaviours } from './reach.ts';
import { serviceBehaviours } from './services.ts';
import { TwoNodes } from './two-nodes.ts';

/** Tests have the names of behaviors of the conformance list; one may cover several. Call it at the top of a test file. */
export async function networkBehavioursOn(stage: NodeStageName): Promise<void> {
  const none = await noNodesOn(stage);
  const title = `[sig-network] on two ${stage} nodes${none === undefined ? '' : ` (${none})`}`;
  describe.skipIf(none !== undefined)(title, { concurrent: true }, () => {
    leaveOutWhatCannotBe(stage);
    const two = TwoNodes.use(stage);
    reachBehaviours(two);
    datagramBehaviours(two);
    serviceBehaviours(two);
    nameBehaviours(two);
  });
}
