import { beforeAll, describe } from 'vitest';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { missing } from '../harness/machine-parts.ts';
import { whatEnds } from './chaos-ends.ts';
import { whatHangs } from './chaos-hangs.ts';
import { ChaosNode } from './chaos-node.ts';
import { whatTheMachineDoes } from './chaos-machine.ts';

const lacking = everythingIsNeeded ? undefined : await missing.containerd();

describe.skipIf(lacking !== undefined)(`a node to which much happens${lacking === undefined ? '' : ` (${lacking})`}`, () => {
  const node = new ChaosNode(Machine.use());
  beforeAll(() => node.start());
  whatHangs(node);
  whatEnds(node);
  whatTheMachineDoes(node);
});
