import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserMissing } from '../harness/browser.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { hostileContent } from './console/hostile-content.ts';
import { everyView, manners } from './console/manners.ts';
import { plugins } from './console/plugins.ts';
import { resources } from './console/resources.ts';
import { restart, signIn } from './console/sign-in.ts';
import { ConsoleStage } from './console/stage.ts';
import { top } from './console/top.ts';
import { trace, traces } from './console/traces.ts';
import { why } from './console/why.ts';
import { changeWorkload, deleteWorkload, deploy, operateWorkload } from './console/workload.ts';

const missing = browserMissing();

describe.skipIf(missing !== undefined)(
  `the console${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // steps of one journey: what fails is tried again from the beginning, not from its middle
  () => {
    const machine = Machine.use();
    let current: ConsoleStage | undefined;
    const stage = (): ConsoleStage => {
      if (current === undefined) throw new Error('the cluster did not start');
      return current;
    };

    beforeAll(async () => {
      const cluster = await machine.cluster({
        spec: {
          ...composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { port: 0 } }),
          paths: ['console'],
        },
      });
      current = await ConsoleStage.open(cluster);
    });
    afterAll(() => current?.close());

    // in the order in which each step needs the results of earlier ones
    for (const steps of [
      ...[signIn, deploy, trace, why, top, changeWorkload, operateWorkload, traces, plugins, resources],
      ...[restart, hostileContent, manners, deleteWorkload, everyView],
    ])
      steps(stage);

    it('caused no error and no violation of its policy', () => {
      expect(stage().user.faults).toEqual([]);
    });
  },
);
