import type { PodSandboxConfig } from '@oarlock/spi/runtime';
import { expect, it } from 'vitest';
import { sandboxLabels, splitLabels } from '../../src/engine/names-and-labels.ts';

const config = (labels: Readonly<Record<string, string>>, annotations: Readonly<Record<string, string>> = {}) =>
  ({ labels, annotations }) as unknown as PodSandboxConfig;

it('labels and annotations are what they were', () => {
  const [labels, annotations] = [
    { app: 'web', 'example.com/tier': 'a' },
    { note: 'x', 'example.com/note': 'annotation.y' },
  ];
  expect(splitLabels(sandboxLabels(config(labels, annotations), 'node-a', 0))).toEqual({ labels, annotations });
});

it('a label of a pod is no annotation, which the kubelet would trust', () => {
  const stored = sandboxLabels(config({ app: 'web', 'annotation.oarlock.dev/pod-ips': '10.0.0.99' }), 'node-a', 0);
  expect(splitLabels(stored)).toEqual({ labels: { app: 'web' }, annotations: {} });
});

it('a label of a pod does not replace what the runtime stores', () => {
  const stored = sandboxLabels(config({ 'dev.oarlock.owner': 'other', 'io.kubernetes.docker.type': 'container' }), 'node-a', 0);
  expect([stored['dev.oarlock.owner'], stored['io.kubernetes.docker.type']]).toEqual(['node-a', 'podsandbox']);
});
