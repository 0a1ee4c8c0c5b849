import { writeFile } from 'node:fs/promises';
import { beforeAll, describe } from 'vitest';
import { NodeWorkbench, noNode } from '../node-workbench.ts';
import { containerBehaviours } from './containers.ts';
import { nodeImages } from './images.ts';
import { podBehaviours } from './pods.ts';
import { resizeBehaviours } from './resize.ts';

/** Tests are named after behaviours of the conformance list; one may stand for several that are looked at together. */
describe.skipIf(noNode !== undefined)(`[sig-node] on containerd${noNode === undefined ? '' : ` (${noNode})`}`, { concurrent: true }, () => {
  const bench = NodeWorkbench.use();
  beforeAll(async () => {
    const archive = bench.machine.path('images');
    await writeFile(archive, await nodeImages());
    await (await bench.machine.containerd()).importImages(archive);
  });
  containerBehaviours(bench);
  podBehaviours(bench);
  resizeBehaviours(bench);
});
