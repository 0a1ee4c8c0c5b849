import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { browserMissing } from '../harness/browser.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { ConsoleStage } from './console/stage.ts';
import { story } from './console/story.ts';

const missing = browserMissing();

describe.skipIf(missing !== undefined)(
  `the console of the default composition${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // one cluster
  () => {
    const machine = Machine.use();
    let stage: ConsoleStage;

    beforeAll(async () => {
      const { spec } = parse(await readFile(join(root, 'clusters', 'embedded.yaml'), 'utf8')) as { readonly spec: ClusterSpec };
      stage = await ConsoleStage.open(await machine.cluster({ spec: { ...spec, settings: { kubelet: { port: 0 } } } }));
    });
    afterAll(() => stage?.close());

    it('leads from the printed link through a deployment, a pending pod, a rollout, its trace, logs and a shell to a roll back', async () => {
      const example = await readFile(join(root, 'examples', 'hello', 'hello.yaml'), 'utf8');
      await story(stage.page, { link: stage.printedLink, example });
      expect(stage.user.faults).toEqual([]);
    });
  },
);
