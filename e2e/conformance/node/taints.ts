import { expect, it } from 'vitest';
import type { Item } from '../../harness/api.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';

interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}
interface NodeItem extends Item {
  readonly spec: { readonly taints?: readonly Taint[] };
}

/** Evictions by taints. They evict the pods of all tests from a node, so they run after the others, one after another. */
export function taintBehaviours(bench: NodeWorkbench): void {
  const node = 'node-b';
  const evict = { key: 'kubernetes.io/e2e-evict-taint-key', value: 'evictTaintVal', effect: 'NoExecute' };
  const other = { ...evict, key: 'kubernetes.io/e2e-other-taint-key' };
  const path = `/api/v1/nodes/${node}`;
  /** Sets exactly these test taints on the node. */
  const taint = async (...ours: readonly Taint[]) => {
    const { spec } = await bench.api.get<NodeItem>(path);
    const kept = (spec.taints ?? []).filter(({ key }) => key !== evict.key && key !== other.key);
    await bench.merge(path, { spec: { taints: [...kept, ...ours] } });
  };
  const tolerating = async (...tolerations: readonly Spec[]) =>
    (await bench.start({ nodeName: node, tolerations, containers: [bench.container('exec sleep 3600')] })).metadata.name;
  const tolerated = ({ key, effect }: Taint, tolerationSeconds?: number): Spec => ({
    key,
    operator: 'Exists',
    effect,
    ...(tolerationSeconds !== undefined && { tolerationSeconds }),
  });
  const left = (name: string) => bench.pods.until(name, 'be evicted', ({ metadata }) => metadata.deletionTimestamp !== undefined);
  /** The time of a pod's deletion request in ms: its deletionTimestamp minus its grace period. */
  const deletionOf = async (name: string) => {
    const { metadata } = await left(name);
    return Date.parse(metadata.deletionTimestamp ?? '') - (metadata.deletionGracePeriodSeconds ?? 0) * 1000;
  };

  it('NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds', async () => {
    const soon = await tolerating(tolerated(evict, 3), tolerated(evict, 3600));
    const later = await tolerating(tolerated(evict, 9));
    const stays = await tolerating(tolerated(evict));
    const evictions = Promise.all([deletionOf(soon), deletionOf(later)]);
    const began = Date.now();
    try {
      await taint(evict);
      const [first, second] = await evictions;
      // deletionTimestamp has whole seconds
      expect(first - began).toBeGreaterThan(3_000 - 1_000);
      expect(second - began).toBeGreaterThan(9_000 - 1_000);
      expect(second).toBeGreaterThan(first);
      await Promise.all([bench.gone(soon), bench.gone(later)]);
      expect(bench.pods.get(stays)?.metadata.deletionTimestamp).toBeUndefined();
    } finally {
      await taint();
      bench.forget(stays);
    }
  });

  it('NoExecuteTaintManager Single Pod removing taint cancels eviction', async () => {
    const stays = await tolerating(tolerated(evict, 30), tolerated(other));
    // its eviction shows when the toleration of the other would have expired
    const clock = await tolerating(tolerated(evict), tolerated(other, 32));
    try {
      await taint(evict);
      await taint(other);
      await left(clock);
      expect(bench.pods.get(stays)?.metadata).not.toHaveProperty('deletionTimestamp');
      expect(bench.pods.get(stays)?.status.phase).toBe('Running');
    } finally {
      await taint();
      for (const name of [stays, clock]) bench.forget(name);
    }
  });
}
