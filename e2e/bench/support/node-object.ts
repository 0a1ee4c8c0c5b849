import type { LoadGenerator } from './load-generator.ts';

/** A Node object that is Ready and has no kubelet. */
export async function createReadyNode(
  load: LoadGenerator,
  name: string,
  labels: Readonly<Record<string, string>>,
  resources: Readonly<Record<string, string>>,
): Promise<void> {
  const path = '/api/v1/nodes';
  await load.request('POST', path, JSON.stringify({ metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } }, spec: {} }));
  const status = { allocatable: resources, capacity: resources, conditions: [{ type: 'Ready', status: 'True' }] };
  await load.patch(`${path}/${name}/status`, JSON.stringify({ status }));
  await load.patch(`${path}/${name}`, JSON.stringify({ spec: { taints: null } }));
}
