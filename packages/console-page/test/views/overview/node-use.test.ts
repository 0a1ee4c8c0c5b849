import { expect, it } from 'vitest';
import { ApiClient } from '../../../src/api/client.ts';
import { readNodeUse, servesNodeUse } from '../../../src/views/overview/node-use.ts';

it('reads the use of each node in cores and bytes', async () => {
  const items = [{ metadata: { name: 'a' }, usage: { cpu: '250m', memory: '1Ki' } }, { metadata: { name: 'b' } }];
  const paths: string[] = [];
  const client = new ApiClient(
    (path) => {
      paths.push(path);
      return Promise.resolve(new Response(JSON.stringify({ metadata: {}, items })));
    },
    () => 'key',
  );
  const use = await readNodeUse(client, new AbortController().signal);
  expect([...use]).toEqual([
    ['a', { cpu: 0.25, memory: 1024 }],
    ['b', { cpu: 0, memory: 0 }],
  ]);
  expect(paths).toEqual(['/apis/metrics.k8s.io/v1beta1/nodes']);
});

it('is served with metrics.k8s.io only', () => {
  expect(servesNodeUse([{ group: '', resource: 'nodes' }])).toBe(false);
  expect(servesNodeUse([{ group: 'metrics.k8s.io', resource: 'nodes' }])).toBe(true);
});
