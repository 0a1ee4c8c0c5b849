import { describe, expect, it } from 'vitest';
import { isTrue, named, ready, selector, template, type Thing, type Workbench } from './workbench.ts';

const budget = (minAvailable: number | string) => ({ spec: { minAvailable, selector } });
const statusOf = (healthy: number, allowed: number) => ({ status: { currentHealthy: healthy, disruptionsAllowed: allowed } });
const withPods = (replicas: number) => ({ spec: { replicas, selector, template: template() } });

export function disruptions(bench: Workbench): void {
  describe.concurrent('[sig-apps] DisruptionController', () => {
    it('should create a PodDisruptionBudget', async () => {
      const space = await bench.space();
      await space.create('poddisruptionbudgets', 'pdb', budget('1%'));
      await space.untilHas('poddisruptionbudgets', 'pdb', { status: { observedGeneration: 1 } });
      await space.update('poddisruptionbudgets', 'pdb', ({ spec }) => ({ spec: { ...spec, minAvailable: '2%' } }));
      await space.untilHas('poddisruptionbudgets', 'pdb', { spec: { minAvailable: '2%' }, status: { observedGeneration: 2 } });
      await space.patch('poddisruptionbudgets', 'pdb', { spec: { minAvailable: '3%' } });
      await space.untilHas('poddisruptionbudgets', 'pdb', { spec: { minAvailable: '3%' }, status: { observedGeneration: 3 } });
      await space.remove('poddisruptionbudgets', 'pdb');
      await space.untilNone('poddisruptionbudgets');
    });

    it('Listing PodDisruptionBudgets for all namespaces should list and delete a collection of PodDisruptionBudgets', async () => {
      const [space, other] = [await bench.space(), await bench.space()];
      for (const name of ['a', 'b', 'c']) await space.create('poddisruptionbudgets', name, budget(1), { labels: { e2e: space.name } });
      await other.create('poddisruptionbudgets', 'a', budget(1), { labels: { e2e: space.name } });
      expect((await space.list('poddisruptionbudgets', `e2e=${space.name}`)).items).toHaveLength(3);
      expect((await space.everywhere('poddisruptionbudgets', `e2e=${space.name}`)).items).toHaveLength(4);
      await space.removeAll('poddisruptionbudgets', `e2e=${space.name}`);
      await space.untilNone('poddisruptionbudgets');
      expect((await other.list('poddisruptionbudgets')).items).toHaveLength(1);
    });

    it('should observe PodDisruptionBudget status updated', async () => {
      const space = await bench.space();
      await space.create('poddisruptionbudgets', 'pdb', budget(1));
      await space.create('replicasets', 'rs', withPods(3));
      await space.untilHas('poddisruptionbudgets', 'pdb', {
        status: { currentHealthy: 3, desiredHealthy: 1, expectedPods: 3, disruptionsAllowed: 2 },
      });
    });

    it('should update/patch PodDisruptionBudget status', async () => {
      const space = await bench.space();
      await space.create('poddisruptionbudgets', 'pdb', budget(1));
      await space.untilHas('poddisruptionbudgets', 'pdb', { status: { observedGeneration: 1 } });
      const disrupted = { DisruptedPod: '2026-01-01T00:00:00Z' };
      await space.update('poddisruptionbudgets', 'pdb', ({ status }) => ({ status: { ...status, disruptedPods: disrupted } }), 'status');
      await space.watching(
        'poddisruptionbudgets',
        () =>
          space.patch(
            'poddisruptionbudgets',
            'pdb',
            { status: { disruptedPods: { another: '2026-01-01T00:00:00Z' } } },
            { subresource: 'status' },
          ),
        (type, thing) =>
          type === 'MODIFIED' && (thing.status?.['disruptedPods'] as Record<string, unknown> | undefined)?.['another'] !== undefined,
      );
    });

    it('should block an eviction until the PDB is updated to allow it', async () => {
      const space = await bench.space();
      await space.create('replicasets', 'rs', withPods(3));
      const pods = await space.untilReady(3);
      const name = pods[0]?.metadata.name ?? '';
      await space.create('poddisruptionbudgets', 'pdb', budget(3));
      await space.untilHas('poddisruptionbudgets', 'pdb', statusOf(3, 0));
      const rejection = await space.evict(name);
      expect({ status: rejection.status, body: JSON.parse(rejection.body) as unknown }).toMatchObject({
        status: 429,
        body: { reason: 'TooManyRequests', details: { causes: [{ reason: 'DisruptionBudget' }] } },
      });
      await space.patch('poddisruptionbudgets', 'pdb', budget(2));
      await space.untilHas('poddisruptionbudgets', 'pdb', statusOf(3, 1));
      expect((await space.evict(name)).status).toBe(201);
      await space.until('pods', 'another replaces it', (all: readonly Thing[]) => !all.some(named(name)) && all.filter(ready).length === 3);
      expect(isTrue(pods[0] as Thing, 'DisruptionTarget')).toBe(false);
    });
  });
}
