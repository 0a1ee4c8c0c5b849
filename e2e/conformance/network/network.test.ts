import { describe } from 'vitest';
import { datagramBehaviours } from './datagrams.ts';
import { nameBehaviours } from './names.ts';
import { reachBehaviours } from './reach.ts';
import { serviceBehaviours } from './services.ts';
import { noNodes, TwoNodes } from './two-nodes.ts';

/** Tests are named after behaviours of the conformance list; one may stand for several that are looked at together. */
describe.skipIf(noNodes !== undefined)(
  `[sig-network] on two containerd nodes${noNodes === undefined ? '' : ` (${noNodes})`}`,
  { concurrent: true },
  () => {
    const two = TwoNodes.use();
    reachBehaviours(two);
    datagramBehaviours(two);
    serviceBehaviours(two);
    nameBehaviours(two);
  },
);
