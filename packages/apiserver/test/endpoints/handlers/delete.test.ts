import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMap, pod, rejectionOf, TestServer } from '../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString().replace('.000', '');
const job = (name: string): KubeObject => ({
  kind: 'Job',
  apiVersion: 'batch/v1',
  metadata: { name },
  ...{ spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'i' }] } } } },
});

describe('delete', () => {
  it('returns a Status, or the object where upstream does', async () => {
    const created = await server.create('configmaps', configMap('a'));
    expect(await server.remove('configmaps', 'a')).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name: 'a', kind: 'configmaps', uid: created.metadata?.uid },
    });
    await server.create('serviceaccounts', { kind: 'ServiceAccount', apiVersion: 'v1', metadata: { name: 's' } });
    expect(await server.remove('serviceaccounts', 's')).toMatchObject({
      kind: 'ServiceAccount',
      metadata: { name: 's', resourceVersion: '4' },
    });
    expect((await rejectionOf(server.remove('configmaps', 'a'))).status).toMatchObject({ code: 404, message: 'configmaps "a" not found' });
  });

  it('keeps system priority classes', async () => {
    const create = (name: string, value: number) =>
      server.create('priorityclasses.scheduling.k8s.io', {
        kind: 'PriorityClass',
        apiVersion: 'scheduling.k8s.io/v1',
        metadata: { name },
        ...{ value },
      });
    await create('system-node-critical', 2_000_001_000);
    await create('other', 1);
    expect((await rejectionOf(server.remove('priorityclasses.scheduling.k8s.io', 'system-node-critical'))).status).toMatchObject({
      code: 403,
      message:
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted',
    });
    await server.remove('priorityclasses.scheduling.k8s.io', 'other');
  });

  it('checks preconditions', async () => {
    const created = await server.create('configmaps', configMap('a'));
    const uid = created.metadata?.uid ?? '';
    expect((await rejectionOf(server.remove('configmaps', 'a', { body: { preconditions: { uid: 'other' } } }))).status).toMatchObject({
      code: 409,
      message: `Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    });
    expect((await rejectionOf(server.remove('configmaps', 'a', { body: { preconditions: { resourceVersion: '7' } } }))).message).toContain(
      'the ResourceVersion in the precondition (7) does not match the ResourceVersion in record (1). The object might have been modified',
    );
    await server.remove('configmaps', 'a', { body: { preconditions: { uid, resourceVersion: '1' } } });
  });

  it('waits for finalizers; removing the last one deletes the object', async () => {
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('a', {}, { finalizers: ['example.com/one', 'example.com/two'] }));
    await server.clock.advance(5_000);
    const held = await server.remove('configmaps', 'a');
    expect(held.metadata).toMatchObject({
      deletionTimestamp: at(5),
      deletionGracePeriodSeconds: 0,
      finalizers: ['example.com/one', 'example.com/two'],
    });
    await server.clock.advance(5_000);
    expect((await server.remove('configmaps', 'a')).metadata).toEqual(held.metadata);
    expect((await rejectionOf(server.patch('configmaps', 'a', { metadata: { finalizers: ['example.com/three'] } }))).message).toContain(
      'no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/three"}',
    );
    const kept = await server.patch('configmaps', 'a', { metadata: { finalizers: ['example.com/two'], deletionTimestamp: null } });
    expect(kept.metadata?.deletionTimestamp).toBe(at(5));
    const gone = await server.patch('configmaps', 'a', { metadata: { finalizers: null }, data: { last: 'words' } });
    expect(gone).toMatchObject({ data: { last: 'words' }, metadata: { name: 'a', resourceVersion: '4' } });
    expect((await rejectionOf(server.get('configmaps', 'a'))).reason).toBe('NotFound');
    expect(await watching.take(4)).toEqual(['ADDED a', 'MODIFIED a', 'MODIFIED a', 'DELETED a']);
  });

  it('sets the finalizers for the garbage collector', async () => {
    const finalizers = async (
      body: object | undefined,
      of = 'configmaps',
      make: (name: string) => KubeObject = (name) => configMap(name),
    ) => {
      await server.create(of, { ...make('a'), metadata: { name: 'a', finalizers: ['example.com/hold'] } });
      const { metadata } = await server.remove(of, 'a', body && { body });
      await server.patch(of, 'a', { metadata: { finalizers: null } });
      return metadata?.finalizers;
    };
    expect(await finalizers({ propagationPolicy: 'Foreground' })).toEqual(['example.com/hold', 'foregroundDeletion']);
    expect(await finalizers({ propagationPolicy: 'Orphan' })).toEqual(['example.com/hold', 'orphan']);
    expect(await finalizers({ orphanDependents: true })).toEqual(['example.com/hold', 'orphan']);
    expect(await finalizers({ propagationPolicy: 'Background' })).toEqual(['example.com/hold']);
    expect(await finalizers(undefined)).toEqual(['example.com/hold']);
    // jobs orphan their pods by default, for old clients
    expect(await finalizers(undefined, 'jobs.batch', job)).toEqual(['example.com/hold', 'orphan']);
    expect(await finalizers({ propagationPolicy: 'Background' }, 'jobs.batch', job)).toEqual(['example.com/hold']);
  });

  it('returns 202 with orphanDependents=false while the object is held', async () => {
    await server.create('configmaps', configMap('a', {}, { finalizers: ['example.com/hold'] }));
    expect(
      await server.handle('delete', 'configmaps', { namespace: 'default', name: 'a', body: { orphanDependents: false } }),
    ).toMatchObject({ code: 202 });
  });

  it('rejects invalid options', async () => {
    await server.create('configmaps', configMap('a'));
    const message = async (body: object) => (await rejectionOf(server.remove('configmaps', 'a', { body }))).message;
    expect(await message({ propagationPolicy: 'Sideways' })).toBe(
      'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"',
    );
    expect(await message({ propagationPolicy: 'Orphan', orphanDependents: true })).toContain(
      'orphanDependents and deletionPropagation cannot be both set',
    );
    expect(await message({ dryRun: ['Maybe'] })).toContain('dryRun: Unsupported value');
    expect(await message({ gracePeriodSeconds: 'soon' })).toContain('cannot unmarshal string');
  });

  it('supports dry run, and options in the query', async () => {
    await server.create('configmaps', configMap('a'));
    await server.remove('configmaps', 'a', { query: { dryRun: 'All' } });
    await server.remove('configmaps', 'a', { body: { dryRun: ['All'] } });
    expect((await server.list('configmaps')).names).toEqual(['a']);
    await server.create('pods', pod('p', { nodeName: 'n' }));
    expect((await server.remove('pods', 'p', { query: { gracePeriodSeconds: '7' } })).metadata).toMatchObject({
      deletionGracePeriodSeconds: 7,
    });
  });

  it('deletes collections by selector, also during concurrent deletions', async () => {
    for (const [name, on] of [
      ['a', 'yes'],
      ['b', 'no'],
      ['c', 'yes'],
    ] as const)
      await server.create('configmaps', configMap(name, {}, { labels: { on } }));
    const [response] = await Promise.all([
      server.handle('deletecollection', 'configmaps', { namespace: 'default', query: { labelSelector: 'on=yes' } }),
      server.remove('configmaps', 'c').catch(() => undefined),
    ]);
    expect(response.kind).toBe('list');
    expect((await server.list('configmaps')).names).toEqual(['b']);
  });
});

describe('pod deletion', () => {
  it('waits for the grace period, which can only be shortened', async () => {
    await server.create('pods', pod('a', { nodeName: 'n' }));
    const first = await server.remove('pods', 'a');
    expect(first.metadata).toMatchObject({ deletionTimestamp: at(30), deletionGracePeriodSeconds: 30, generation: 2 });
    await server.clock.advance(10_000);
    expect((await server.remove('pods', 'a')).metadata).toEqual(first.metadata);
    expect((await server.remove('pods', 'a', { body: { gracePeriodSeconds: 60 } })).metadata).toEqual(first.metadata);
    expect((await server.remove('pods', 'a', { body: { gracePeriodSeconds: 20 } })).metadata).toMatchObject({
      deletionTimestamp: at(20),
      deletionGracePeriodSeconds: 20,
      generation: 2,
    });
    const watching = await server.watch('pods');
    expect(await server.remove('pods', 'a', { body: { gracePeriodSeconds: 0 } })).toMatchObject({
      kind: 'Pod',
      metadata: { deletionGracePeriodSeconds: 0 },
    });
    expect(await watching.take(2)).toEqual(['ADDED a', 'DELETED a']);
  });

  it('is immediate if the pod is unscheduled, terminated or force deleted', async () => {
    await server.create('pods', pod('unscheduled'));
    expect((await server.remove('pods', 'unscheduled')).metadata).toMatchObject({
      deletionGracePeriodSeconds: 0,
      deletionTimestamp: at(0),
    });
    await server.create('pods', pod('done', { nodeName: 'n' }));
    await server.patch('pods', 'done', { status: { phase: 'Succeeded' } }, { subresource: 'status' });
    await server.remove('pods', 'done');
    await server.create('pods', pod('forced', { nodeName: 'n' }));
    await server.remove('pods', 'forced', { body: { gracePeriodSeconds: 0 } });
    await server.create('pods', pod('hasty', { nodeName: 'n', terminationGracePeriodSeconds: 5 }));
    expect((await server.remove('pods', 'hasty', { body: { gracePeriodSeconds: -1 } })).metadata).toMatchObject({
      deletionGracePeriodSeconds: 1,
    });
    expect((await server.list('pods')).names).toEqual(['hasty']);
  });

  it('waits for finalizers', async () => {
    await server.create('pods', pod('a', {}, { finalizers: ['example.com/hold'] }));
    expect((await server.remove('pods', 'a')).metadata).toMatchObject({ deletionGracePeriodSeconds: 0, deletionTimestamp: at(0) });
    await server.patch('pods', 'a', { metadata: { finalizers: null } });
    expect((await server.list('pods')).names).toEqual([]);
  });

  it('accepts status updates, which do not undo it', async () => {
    const created = await server.create<KubeObject & { status: object }>('pods', pod('a', { nodeName: 'n' }));
    await server.remove('pods', 'a');
    const reported = await server.update(
      'pods',
      { ...created, metadata: { name: 'a', namespace: 'default' }, ...{ status: { ...created.status, phase: 'Running' } } },
      { subresource: 'status' },
    );
    expect(reported).toMatchObject({
      metadata: { deletionTimestamp: at(30), deletionGracePeriodSeconds: 30 },
      status: { phase: 'Running' },
    });
  });
});

describe('namespace deletion', () => {
  const finalize = async (finalizers: readonly string[]) => {
    const current = await server.get('namespaces', 'team');
    return server.update('namespaces', { ...current, ...{ spec: { finalizers } } }, { subresource: 'finalize' });
  };
  beforeEach(async () => {
    await server.create('namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'team' } });
  });

  it('marks the namespace, and completes when its content is deleted', async () => {
    const going = await server.remove('namespaces', 'team');
    expect(going).toMatchObject({
      metadata: { deletionTimestamp: at(0) },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Terminating' },
    });
    expect(going.metadata).not.toHaveProperty('deletionGracePeriodSeconds');
    expect((await server.remove('namespaces', 'team')).metadata).toEqual(going.metadata);
    expect((await server.list('namespaces', { fieldSelector: 'status.phase=Terminating' })).names).toEqual(['team']);
    await server.patch(
      'namespaces',
      'team',
      { status: { conditions: [{ type: 'NamespaceContentRemaining', status: 'True' }] } },
      { subresource: 'status' },
    );
    await finalize([]);
    expect((await rejectionOf(server.get('namespaces', 'team'))).reason).toBe('NotFound');
  });

  it('waits for other finalizers after its own', async () => {
    await server.patch('namespaces', 'team', { metadata: { finalizers: ['example.com/hold'] } });
    await server.remove('namespaces', 'team');
    expect(await finalize([])).toMatchObject({ metadata: { finalizers: ['example.com/hold'] } });
    await server.patch('namespaces', 'team', { metadata: { finalizers: [] } });
    expect((await server.list('namespaces')).names).toEqual([]);
  });

  it('is not caused by updates', async () => {
    const current = await server.get('namespaces', 'team');
    const updated = await server.update('namespaces', { ...current, ...{ spec: { finalizers: [] }, status: { phase: 'Terminating' } } });
    expect(updated).toMatchObject({ spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } });
  });
});

describe('events', () => {
  const event = (name: string, more: object = {}): KubeObject => ({
    kind: 'Event',
    apiVersion: 'v1',
    metadata: { name },
    ...{
      involvedObject: { kind: 'Pod', name: 'p', namespace: 'default', uid: '1' },
      reason: 'Started',
      message: 'it started',
      type: 'Normal',
      source: { component: 'kubelet' },
      ...more,
    },
  });

  it('last an hour', async () => {
    await server.create('events', event('e'));
    await server.clock.advance(3_599_000);
    expect((await server.list('events')).names).toEqual(['e']);
    await server.clock.advance(2_000);
    expect((await server.list('events')).names).toEqual([]);
  });

  it('are served by two groups as one object', async () => {
    await server.create('events', event('e'));
    const served = await server.get('events.events.k8s.io', 'e');
    expect(served).toMatchObject({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      regarding: { kind: 'Pod', name: 'p' },
      note: 'it started',
      reason: 'Started',
      deprecatedSource: { component: 'kubelet' },
    });
    const watching = await server.watch('events.events.k8s.io', { fieldSelector: 'regarding.name=p' });
    expect((await watching.next())?.item.object).toEqual(served);
    await server.create('events.events.k8s.io', {
      kind: 'Event',
      apiVersion: 'events.k8s.io/v1',
      metadata: { name: 'f' },
      ...{
        regarding: { kind: 'Pod', name: 'q', namespace: 'default' },
        eventTime: '2026-01-01T00:00:00.000000Z',
        reportingController: 'example.com/c',
        reportingInstance: 'c-1',
        action: 'Do',
        reason: 'Done',
        note: 'well',
        type: 'Normal',
      },
    });
    expect(await server.get('events', 'f')).toMatchObject({
      apiVersion: 'v1',
      involvedObject: { name: 'q' },
      message: 'well',
      reportingComponent: 'example.com/c',
    });
    expect((await server.list('events', { fieldSelector: 'involvedObject.name=q,reportingComponent=example.com/c' })).names).toEqual(['f']);
    await server.patch('events.events.k8s.io', 'f', { series: { count: 2, lastObservedTime: '2026-01-01T00:00:01.000000Z' } });
    expect(await server.get('events', 'f')).toMatchObject({ series: { count: 2 } });
    await server.remove('events.events.k8s.io', 'f');
    expect((await server.list('events')).names).toEqual(['e']);
  });
});

describe('autoscalers', () => {
  it('are served in two versions as one object', async () => {
    const v2 = {
      group: 'autoscaling',
      version: 'v2',
      resource: 'horizontalpodautoscalers',
      kind: 'HorizontalPodAutoscaler',
      namespaced: true,
    };
    const v1 = { ...v2, version: 'v1' };
    const metrics = [
      { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 70 } } },
      { type: 'Resource', resource: { name: 'memory', target: { type: 'AverageValue', averageValue: '1Gi' } } },
    ];
    await server.create(v2, {
      kind: 'HorizontalPodAutoscaler',
      apiVersion: 'autoscaling/v2',
      metadata: { name: 'h' },
      ...{ spec: { scaleTargetRef: { kind: 'Deployment', name: 'd', apiVersion: 'apps/v1' }, maxReplicas: 5, metrics } },
    });
    expect(await server.get(v1, 'h')).toMatchObject({
      apiVersion: 'autoscaling/v1',
      spec: { maxReplicas: 5, targetCPUUtilizationPercentage: 70 },
    });
    await server.patch(v1, 'h', { spec: { targetCPUUtilizationPercentage: 50 } });
    // upstream's conversion appends the metric of v1 to those in the annotation
    expect(await server.get(v2, 'h')).toMatchObject({
      spec: {
        metrics: [{ resource: { name: 'memory', target: { averageValue: '1Gi' } } }, { resource: { target: { averageUtilization: 50 } } }],
      },
    });
    expect((await server.get(v2, 'h')).metadata).not.toHaveProperty('annotations');
  });
});
