import { namespaces, nodes } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import type { ImageSupport, PodIsolation } from '@oarlock/spi/runtime';
import { app, Bench, container, podOf, withTraits } from '../support/bench.ts';

describe('runtime features', () => {
  it('are in the node status, and pods that need them are admitted', async () => {
    const features = {
      handlers: [{ name: '', recursiveReadOnlyMounts: true, userNamespaces: false }],
      supplementalGroupsPolicy: true,
    };
    const bench = await new Bench({
      wrap: (runtime) => Object.assign(withTraits(runtime, {}), { features: () => Promise.resolve(features) }),
    }).start();
    try {
      expect(bench.api.object(nodes, { name: 'node-a' })?.status).toMatchObject({
        features: { supplementalGroupsPolicy: true },
        runtimeHandlers: [{ name: '', features: { recursiveReadOnlyMounts: true, userNamespaces: false } }],
      });
      bench.create(podOf('strict', { securityContext: { supplementalGroups: [7], supplementalGroupsPolicy: 'Strict' } }));
      await bench.ready('strict');
      const mounts = ['Enabled', 'IfPossible', 'Disabled', undefined].map((recursiveReadOnly, index) => ({
        name: 'v',
        mountPath: `/${index}`,
        readOnly: true,
        ...(recursiveReadOnly !== undefined && { recursiveReadOnly }),
      }));
      bench.create(podOf('below', { containers: [app({ volumeMounts: mounts })], volumes: [{ name: 'v', emptyDir: {} }] }));
      expect(container(await bench.ready('below'))?.volumeMounts?.map(({ recursiveReadOnly }) => recursiveReadOnly)).toEqual([
        'Enabled',
        'Enabled',
        'Disabled',
        'Disabled',
      ]);
      bench.create(podOf('apart', { hostUsers: false }));
      await bench.clock.advance(5000);
      expect(bench.events.of('FailedCreatePodSandBox')[0]).toBe(
        "apart Warning FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
      );
    } finally {
      await bench.dispose();
    }
  });
});

describe('pod isolation', () => {
  const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  const benchWith = (isolation: PodIsolation) =>
    new Bench({ wrap: (runtime) => Object.assign(withTraits(runtime, {}), { isolation: () => Promise.resolve(isolation) }) }).start();
  const conditionOf = (bench: Bench) =>
    bench.api.object(nodes, { name: 'node-a' })?.status?.conditions?.find(({ type }) => type === 'PodIsolation');

  it('is required by namespaces that enforce the standard restricted', async () => {
    const bench = await benchWith({ enforced: false, reason: 'the kernel denies it' });
    try {
      bench.api.seed(namespaces, { metadata: { name: 'default', labels: restricted } });
      bench.api.seed(namespaces, { metadata: { name: 'open', labels: { 'pod-security.kubernetes.io/warn': 'restricted' } } });
      bench.create(podOf('web'));
      expect((await bench.until('web', (one) => one?.status?.phase === 'Failed')).status).toMatchObject({
        reason: 'PodIsolationUnavailable',
        message:
          'Pod was rejected: namespace "default" enforces the Pod Security Standard "restricted", and pods on this node run without isolation: the kernel denies it',
      });
      expect(await bench.runtime.listPodSandbox()).toEqual([]);
      expect(conditionOf(bench)).toMatchObject({ status: 'False', message: 'pods run without isolation: the kernel denies it' });
      expect(bench.events.of('PodIsolationUnavailable')).toContain(
        'node-a Warning PodIsolationUnavailable: pods run without isolation: the kernel denies it',
      );
      bench.api.seed(namespaces, { metadata: { name: 'default', labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } } });
      bench.create(podOf('other'));
      await bench.ready('other');
    } finally {
      await bench.dispose();
    }
  });

  it('does not matter where the runtime isolates pods', async () => {
    const bench = await benchWith({ enforced: true, reason: '' });
    try {
      bench.api.seed(namespaces, { metadata: { name: 'default', labels: restricted } });
      bench.create(podOf('web'));
      await bench.ready('web');
      expect(conditionOf(bench)).toMatchObject({ status: 'True', reason: 'PodIsolationEnforced' });
    } finally {
      await bench.dispose();
    }
  });

  it('admits no pod while its namespace cannot be read', async () => {
    const bench = await benchWith({ enforced: false, reason: 'the kernel denies it' });
    try {
      bench.create(podOf('web'));
      await bench.clock.advance(5000);
      expect(await bench.runtime.listPodSandbox()).toEqual([]);
      bench.api.seed(namespaces, { metadata: { name: 'default' } });
      await bench.clock.advance(60_000);
      await bench.ready('web');
    } finally {
      await bench.dispose();
    }
  });
});

describe('image support', () => {
  const conditionWith = async (support: ImageSupport) => {
    const bench = await new Bench({
      wrap: (runtime) => Object.assign(withTraits(runtime, {}), { imageSupport: () => Promise.resolve(support) }),
    }).start();
    try {
      const condition = bench.api.object(nodes, { name: 'node-a' })?.status?.conditions?.find(({ type }) => type === 'ImageSupport');
      return { condition, events: bench.events.of('ImagesUnavailable') };
    } finally {
      await bench.dispose();
    }
  };

  it('is a condition of the node, and an event where images do not run', async () => {
    const message = 'images do not run, only the image "host" as processes of the node: simulated: the kernel denies it';
    expect(await conditionWith({ available: false, detail: 'the kernel denies it' })).toMatchObject({
      condition: { status: 'False', reason: 'ImagesUnavailable', message },
      events: [`node-a Warning ImagesUnavailable: ${message}`],
    });
    expect(await conditionWith({ available: true, detail: 'with runc' })).toMatchObject({
      condition: { status: 'True', reason: 'ImagesRun', message: 'simulated: with runc' },
      events: [],
    });
  });
});
