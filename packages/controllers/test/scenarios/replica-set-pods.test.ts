import { pods, replicaSets } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { api, clock, live, makeReady, start, template, useBuiltInControllers } from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('ReplicaSetController', () => {
  const set: ReplicaSet = {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: { namespace: 'd', name: 's' },
    spec: { replicas: 2, selector: { matchLabels: { app: 'web' } }, template: template('a:1') },
  };

  it('replaces deleted pods and deletes excess ones', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    const [victim] = live();
    await api.client().delete(pods, { namespace: 'd', name: victim?.metadata?.name ?? '' });
    await clock.settle();
    expect(live()).toHaveLength(2);
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 0 } });
    await clock.settle();
    expect(live()).toEqual([]);
  });

  it('adopts matching orphans and releases pods that no longer match', async () => {
    api.seed(pods, { metadata: { namespace: 'd', name: 'orphan', labels: { app: 'web' } }, spec: { containers: [{ name: 'c' }] } });
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    expect(live()).toHaveLength(2);
    expect(api.object(pods, { namespace: 'd', name: 'orphan' })?.metadata?.ownerReferences).toMatchObject([
      { kind: 'ReplicaSet', name: 's' },
    ]);
    await api.client().patch(pods, { namespace: 'd', name: 'orphan' }, 'merge', { metadata: { labels: { app: 'other' } } });
    await clock.settle();
    expect(api.object(pods, { namespace: 'd', name: 'orphan' })?.metadata?.ownerReferences ?? []).toEqual([]);
    expect(live()).toHaveLength(3);
  });

  it('does not create pods twice while its cache is stale', async () => {
    await start();
    api.dropWatches(pods);
    await api.client().create(replicaSets, set);
    await clock.settle();
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { metadata: { annotations: { poke: '1' } } });
    await clock.settle();
    expect(live()).toHaveLength(2);
  });

  it('does not create pods again when the responses to their creation are lost', async () => {
    await start();
    // the connection of the requests is also that of the watch
    api.failNext({ verb: 'watch', resource: pods }, failure('ServiceUnavailable', 'no connection'), 3);
    api.dropWatches(pods);
    api.failNext(
      { verb: 'create', resource: pods },
      ({ body }) => {
        const { metadata, ...rest } = body as Pod;
        api.seed(pods, { ...rest, metadata: { ...metadata, name: `lost-${api.objects(pods).length}` } });
        return failure('ServiceUnavailable', 'the connection was lost');
      },
      2,
    );
    await api.client().create(replicaSets, { ...set, spec: { ...set.spec, selector: set.spec?.selector ?? {}, replicas: 5 } });
    await clock.advance(60_000);
    expect(live()).toHaveLength(5);
    // no pod was created in addition, and deleted when the cache showed it
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === pods)).toHaveLength(5);
  });

  it('does not delete further pods when the response to a deletion is lost', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    await makeReady(live());
    api.failNext({ verb: 'watch', resource: pods }, failure('ServiceUnavailable', 'no connection'), 3);
    api.dropWatches(pods);
    api.failNext({ verb: 'delete', resource: pods }, ({ name, namespace }) => {
      api.remove(pods, { name, namespace });
      return failure('ServiceUnavailable', 'the connection was lost');
    });
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 1 } });
    await clock.advance(60_000);
    expect(live()).toHaveLength(1);
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === pods)).toHaveLength(2);
  });

  it('deletes pods that are not ready before ready ones', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    const [keep] = live();
    await makeReady(keep ? [keep] : []);
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 1 } });
    await clock.settle();
    expect(live().map(({ metadata }) => metadata?.name)).toEqual([keep?.metadata?.name]);
  });
});
