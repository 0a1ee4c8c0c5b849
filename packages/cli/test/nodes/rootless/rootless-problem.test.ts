import { expect, it } from 'vitest';
import { betterComposition } from '../../../src/nodes/rootless/better-composition.ts';
import { missingBridgePlugins } from '../../../src/nodes/rootless/bridge-plugins.ts';
import { rootlessProblem } from '../../../src/nodes/rootless/rootless-problem.ts';

const spec = { network: { use: 'network-bridge', config: { binDirs: ['/nowhere'] } } } as unknown as Parameters<
  typeof rootlessProblem
>[0]['spec'];

it('names what a node without root needs and the machine lacks', async () => {
  const exists = async (path: string) => ['/a/bridge', '/b/host-local', '/b/loopback'].includes(path);
  expect(await missingBridgePlugins(exists, ['/a', '/b'])).toEqual(['portmap']);
  const isRoot = process.geteuid?.() === 0;
  expect(await rootlessProblem({ spec })).toMatch(
    isRoot ? /for ordinary users$/ : /not found in \/nowhere|no namespaces|node without root/,
  );
});

it('offers it only after the default composition of an ordinary user', async () => {
  expect(await betterComposition({ file: 'cluster.yaml' })).toEqual([]);
  if (process.geteuid?.() === 0) expect(await betterComposition({})).toEqual([]);
});
