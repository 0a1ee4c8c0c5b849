import { beforeAll, describe } from 'vitest';
import { everyCombination, everythingIsNeeded, Machine } from '../../harness/machine.ts';
import { ChaosNode } from './chaos-node.ts';
import type { ChaosRuntime } from './chaos-runtime.ts';
import { hangTests } from './hang-tests.ts';
import { killTests } from './kill-tests.ts';
import { machineTests } from './machine-tests.ts';

interface ChaosSubject {
  /** Why the runtime is unavailable on this machine. */
  missing(): string | undefined | Promise<string | undefined>;
  open(machine: Machine): Promise<ChaosRuntime>;
  /** Whether the tests run on request only. */
  readonly onRequest?: boolean;
}

/** Faults on a node of one runtime. Call it at the top of a test file. */
export async function chaosOn(name: string, { missing, open, onRequest = false }: ChaosSubject): Promise<void> {
  const request = onRequest && !everyCombination ? 'OARLOCK_MATRIX=all runs them' : undefined;
  const lacking = request ?? (everythingIsNeeded ? undefined : await missing());
  describe.skipIf(lacking !== undefined)(`faults on a node of ${name}${lacking === undefined ? '' : ` (${lacking})`}`, () => {
    const node = new ChaosNode(Machine.use(), open);
    beforeAll(() => node.start());
    hangTests(node);
    killTests(node);
    machineTests(node);
  });
}
