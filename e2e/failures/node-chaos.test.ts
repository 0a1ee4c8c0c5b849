import { beforeAll, describe } from 'vitest';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { killTests } from './chaos/kill-tests.ts';
import { hangTests } from './chaos/hang-tests.ts';
import { ChaosNode } from './chaos/chaos-node.ts';
import { machineTests } from './chaos/machine-tests.ts';

const lacking = everythingIsNeeded ? undefined : await componentMissing.containerd();

describe.skipIf(lacking !== undefined)(`faults on a node${lacking === undefined ? '' : ` (${lacking})`}`, () => {
  const node = new ChaosNode(Machine.use());
  beforeAll(() => node.start());
  hangTests(node);
  killTests(node);
  machineTests(node);
});
