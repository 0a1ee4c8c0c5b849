import {
  controllerRevisions,
  cronJobs,
  daemonSets,
  deployments,
  jobs,
  podDisruptionBudgets,
  pods,
  replicaSets,
  replicationControllers,
  statefulSets,
} from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { DaemonSet, Deployment, ReplicaSet, StatefulSet } from '@oarlock/api/types/apps-v1';
import type { CronJob, Job } from '@oarlock/api/types/batch-v1';
import type { Pod, PodSpec, ReplicationController } from '@oarlock/api/types/core-v1';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Nodes, type Conformance } from './cluster.ts';

const nodes = new Nodes();
let c: Conformance;
beforeAll(() => nodes.start(), 60_000);
afterAll(() => nodes.stop(), 60_000);
beforeEach(async () => {
  c = await nodes.namespace();
});

const labels = { app: 'test' };
const at = (name: string) => ({ namespace: c.namespace, name });
const template = (image = 'a:1', more: Partial<PodSpec> = {}) => ({
  metadata: { labels },
  spec: { containers: [{ name: 'c', image }], terminationGracePeriodSeconds: 1, ...more },
});
const meta = (name: string) => ({ namespace: c.namespace, name, labels });
const selector = { matchLabels: labels };
const statefulSet = (replicas = 2): StatefulSet => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: meta('ss'),
  spec: { replicas, serviceName: 'test', selector, template: template() },
});
const daemonSet = (): DaemonSet => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: meta('ds'),
  spec: { selector, template: template() },
});
const replicaSet = (replicas = 2): ReplicaSet => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: meta('rs'),
  spec: { replicas, selector, template: template() },
});
const deployment = (replicas = 2): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: meta('dep'),
  spec: { replicas, selector, template: template() },
});
const controller = (replicas = 1): ReplicationController => ({
  apiVersion: 'v1',
  kind: 'ReplicationController',
  metadata: meta('rc'),
  spec: { replicas, selector: labels, template: template() },
});
const job = (name: string, command: readonly string[], more: Partial<Job['spec'] & object> = {}): Job => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: meta(name),
  spec: { template: { metadata: {}, spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a:1', command }] } }, ...more },
});
const is = (name: string) => (object: KubeObject) => object.metadata?.name === name;
const ready = (pod: Pod) => pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
const ended = (name: string, type: string) => (all: readonly Job[]) =>
  all.find(is(name))?.status?.conditions?.some((each) => each.type === type && each.status === 'True') === true;

/** Conditions are set through the status subresource, by update and by patch, and leave the rest alone. */
async function statusEndpoints<T extends KubeObject & { readonly status?: unknown }>(resource: Resource<T>, name: string): Promise<void> {
  const before = await c.client.get(resource, at(name), { subresource: 'status' });
  expect(before.status).toBeDefined();
  const condition = { type: 'StatusPatched', status: 'True', reason: 'Test', message: 'set by a test' };
  const patched = await c.client.patch(resource, at(name), 'merge', { status: { conditions: [condition] } }, { subresource: 'status' });
  expect((patched.status as { conditions: unknown[] }).conditions).toMatchObject([condition]);
  expect((patched as { spec?: unknown }).spec).toEqual((before as { spec?: unknown }).spec);
}
/** The loops write as well: who reads and then writes may lose the race, and does it again. */
async function untilUndisputed(write: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await write();
      return;
    } catch (error) {
      if (!isStatus(error, 'Conflict')) throw error;
    }
  }
}
async function scaleWorks(resource: Resource, name: string, from: number): Promise<void> {
  type Scale = KubeObject & { readonly spec: { readonly replicas: number } };
  const scaled = resource as unknown as Resource<Scale>;
  expect((await c.client.get(scaled, at(name), { subresource: 'scale' })).spec.replicas).toBe(from);
  await untilUndisputed(async () => {
    const scale = await c.client.get(scaled, at(name), { subresource: 'scale' });
    await c.client.update(scaled, { ...scale, spec: { ...scale.spec, replicas: from + 1 } }, { subresource: 'scale' });
  });
  await c.until(resource, (all) => (all.find(is(name)) as { spec?: { replicas?: number } } | undefined)?.spec?.replicas === from + 1);
  await c.client.patch(scaled, at(name), 'merge', { spec: { replicas: from + 2 } }, { subresource: 'scale' });
  await c.until(pods, (all) => all.filter(ready).length === from + 2);
}

describe('[sig-apps]', { timeout: 60_000 }, () => {
  it('StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should have a working scale subresource', async () => {
    await c.client.create(statefulSets, statefulSet(1));
    await scaleWorks(statefulSets, 'ss', 1);
    const all = await c.until(pods, (some) => some.filter(ready).length === 3);
    expect(all.map(({ metadata }) => metadata?.name).sort()).toEqual(['ss-0', 'ss-1', 'ss-2']);
  });

  it('StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform rolling updates and roll backs of template modifications', async () => {
    await c.client.create(statefulSets, statefulSet(2));
    const [first] = await c.until(statefulSets, ([set]) => set?.status?.readyReplicas === 2 && set.status.currentReplicas === 2);
    const images = (image: string) => (all: readonly Pod[]) =>
      all.length === 2 && all.every((pod) => ready(pod) && pod.spec?.containers[0]?.image === image);
    await c.client.patch(statefulSets, at('ss'), 'strategic', {
      spec: { template: { spec: { containers: [{ name: 'c', image: 'a:2' }] } } },
    });
    await c.until(pods, images('a:2'));
    await c.until(
      statefulSets,
      ([set]) =>
        set?.status?.currentRevision === set?.status?.updateRevision && set?.status?.currentRevision !== first?.status?.currentRevision,
    );
    await c.client.patch(statefulSets, at('ss'), 'strategic', {
      spec: { template: { spec: { containers: [{ name: 'c', image: 'a:1' }] } } },
    });
    await c.until(pods, images('a:1'));
    await c.until(statefulSets, ([set]) => set?.status?.currentRevision === first?.status?.currentRevision);
  });

  it('StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should list, patch and delete a collection of StatefulSets', async () => {
    await c.client.create(statefulSets, statefulSet(1));
    await c.client.patch(statefulSets, at('ss'), 'strategic', { metadata: { labels: { patched: 'yes' } }, spec: { replicas: 2 } });
    await c.until(statefulSets, ([set]) => set?.status?.readyReplicas === 2);
    await c.client.deleteCollection(statefulSets, { namespace: c.namespace, labelSelector: 'patched=yes' });
    await c.until(statefulSets, (all) => all.length === 0);
    await c.until(pods, (all) => all.length === 0);
  });

  it('StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should validate Statefulset Status endpoints', async () => {
    await c.client.create(statefulSets, statefulSet(1));
    await c.until(statefulSets, ([set]) => set?.status?.readyReplicas === 1);
    await statusEndpoints(statefulSets, 'ss');
  });

  it('Daemon set [Serial] should run and stop simple daemon', async () => {
    await c.client.create(daemonSets, daemonSet());
    const all = await c.until(pods, (some) => some.filter(ready).length === 3);
    expect(new Set(all.map(({ spec }) => spec?.nodeName)).size).toBe(3);
    await c.client.delete(pods, at(all[0]?.metadata?.name ?? ''));
    await c.until(pods, (some) => some.filter(ready).length === 3 && !some.some(is(all[0]?.metadata?.name ?? '')));
  });

  it('Daemon set [Serial] should update pod when spec was updated and update strategy is RollingUpdate', async () => {
    await c.client.create(daemonSets, daemonSet());
    await c.until(daemonSets, ([set]) => set?.status?.numberAvailable === 3);
    await c.client.patch(daemonSets, at('ds'), 'strategic', {
      spec: { template: { spec: { containers: [{ name: 'c', image: 'a:2' }] } } },
    });
    await c.until(daemonSets, ([set]) => set?.status?.updatedNumberScheduled === 3 && set.status.numberAvailable === 3);
    await c.until(pods, (all) => all.length === 3 && all.every((pod) => pod.spec?.containers[0]?.image === 'a:2'));
  });

  it('Daemon set [Serial] should list and delete a collection of DaemonSets', async () => {
    await c.client.create(daemonSets, daemonSet());
    await c.until(pods, (all) => all.filter(ready).length === 3);
    await c.client.deleteCollection(daemonSets, { namespace: c.namespace, labelSelector: 'app=test' });
    await c.until(pods, (all) => all.length === 0);
  });

  it('Daemon set [Serial] should verify changes to a daemon set status', async () => {
    await c.client.create(daemonSets, daemonSet());
    await c.until(daemonSets, ([set]) => set?.status?.numberAvailable === 3);
    await statusEndpoints(daemonSets, 'ds');
  });

  it('ControllerRevision [Serial] should manage the lifecycle of a ControllerRevision', async () => {
    await c.client.create(daemonSets, daemonSet());
    const [first] = await c.until(controllerRevisions, (all) => all.length === 1);
    const name = first?.metadata?.name ?? '';
    const read = await c.client.get(controllerRevisions, at(name));
    expect(read.metadata?.ownerReferences).toMatchObject([{ kind: 'DaemonSet', name: 'ds', controller: true }]);
    await c.client.patch(controllerRevisions, at(name), 'merge', { metadata: { labels: { patched: 'yes' } } });
    await c.client.create(controllerRevisions, {
      ...read,
      metadata: { ...meta('second'), ownerReferences: read.metadata?.ownerReferences ?? [] },
      revision: read.revision + 1,
    });
    await c.client.deleteCollection(controllerRevisions, { namespace: c.namespace, labelSelector: 'patched=yes' });
    // the set sees to it that its template has a revision
    await c.until(controllerRevisions, (all) => all.length > 0 && !all.some(({ metadata }) => metadata?.labels?.['patched'] === 'yes'));
  });

  it('Deployment should run the lifecycle of a Deployment', async () => {
    await c.client.create(deployments, deployment());
    await c.until(deployments, ([one]) => one?.status?.availableReplicas === 2);
    await c.client.patch(deployments, at('dep'), 'strategic', {
      spec: { replicas: 3, template: { spec: { containers: [{ name: 'c', image: 'a:2' }] } } },
    });
    await c.until(
      deployments,
      ([one]) => one?.status?.updatedReplicas === 3 && one.status.availableReplicas === 3 && one.status.replicas === 3,
    );
    await statusEndpoints(deployments, 'dep');
    await c.client.deleteCollection(deployments, { namespace: c.namespace, labelSelector: 'app=test' });
    await c.until(pods, (all) => all.length === 0);
  });

  it('Deployment RecreateDeployment should delete old pods and create new ones', async () => {
    const spec = deployment();
    await c.client.create(deployments, { ...spec, spec: { ...spec.spec, selector, template: template(), strategy: { type: 'Recreate' } } });
    await c.until(deployments, ([one]) => one?.status?.availableReplicas === 2);
    await c.client.patch(deployments, at('dep'), 'strategic', {
      spec: { template: { spec: { containers: [{ name: 'c', image: 'a:2' }] } } },
    });
    await c.until(pods, (all) => {
      const images = new Set(all.map((pod) => pod.spec?.containers[0]?.image));
      expect(images.size).toBeLessThanOrEqual(1);
      return images.has('a:2') && all.filter(ready).length === 2;
    });
  });

  it('Deployment Deployment should have a working scale subresource', async () => {
    await c.client.create(deployments, deployment(1));
    await scaleWorks(deployments, 'dep', 1);
  });

  it('ReplicaSet Replicaset should have a working scale subresource', async () => {
    await c.client.create(replicaSets, replicaSet(1));
    await scaleWorks(replicaSets, 'rs', 1);
  });

  it('ReplicaSet should adopt matching pods on creation and release no longer matching pods', async () => {
    await c.client.create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: meta('orphan'),

      spec: template().spec,
    } as Pod);
    await c.client.create(replicaSets, replicaSet(1));
    await c.until(pods, (all) => all.find(is('orphan'))?.metadata?.ownerReferences?.[0]?.name === 'rs');
    await c.client.patch(pods, at('orphan'), 'merge', { metadata: { labels: { app: 'other' } } });
    await c.until(pods, (all) => all.length === 2 && (all.find(is('orphan'))?.metadata?.ownerReferences ?? []).length === 0);
  });

  it('ReplicaSet should validate Replicaset Status endpoints', async () => {
    await c.client.create(replicaSets, replicaSet(1));
    await c.until(replicaSets, ([set]) => set?.status?.availableReplicas === 1);
    await statusEndpoints(replicaSets, 'rs');
  });

  it('ReplicationController should test the lifecycle of a ReplicationController', async () => {
    await c.client.create(replicationControllers, controller());
    await c.until(replicationControllers, ([one]) => one?.status?.availableReplicas === 1);
    await c.client.patch(replicationControllers, at('rc'), 'merge', { metadata: { labels: { patched: 'yes' } } });
    await scaleWorks(replicationControllers, 'rc', 1);
    await c.client.deleteCollection(replicationControllers, {
      namespace: c.namespace,
      labelSelector: 'patched=yes',
      propagationPolicy: 'Background',
    });
    await c.until(pods, (all) => all.length === 0);
  });

  it('Job should run a job to completion when tasks sometimes fail and are locally restarted', async () => {
    const spec = job('restarts', ['sleep', '0'], { completions: 4, parallelism: 2 });
    await c.client.create(jobs, spec);
    const [done] = await c.until(jobs, ended('restarts', 'Complete'));
    expect(done?.status).toMatchObject({ succeeded: 4 });
  });

  it('Job should create pods for an Indexed job with completion indexes and specified hostname', async () => {
    await c.client.create(jobs, job('indexed', ['true'], { completions: 4, parallelism: 2, completionMode: 'Indexed' }));
    const [done] = await c.until(jobs, ended('indexed', 'Complete'));
    expect(done?.status).toMatchObject({ succeeded: 4, completedIndexes: '0-3' });
    const all = await c.until(pods, (some) => some.length === 4);
    expect(all.map(({ spec }) => spec?.hostname).sort()).toEqual(['indexed-0', 'indexed-1', 'indexed-2', 'indexed-3']);
  });

  it('Job should allow to use the pod failure policy on exit code to fail the job early', async () => {
    const podFailurePolicy = { rules: [{ action: 'FailJob', onExitCodes: { containerName: 'c', operator: 'In', values: [1] } }] };
    await c.client.create(jobs, job('early', ['exit', '1'], { podFailurePolicy, backoffLimit: 4 }));
    const [done] = await c.until(jobs, ended('early', 'Failed'));
    expect(done?.status?.conditions?.find(({ type }) => type === 'Failed')?.reason).toBe('PodFailurePolicy');
  });

  it('Job should execute all indexes despite some failing when using backoffLimitPerIndex', async () => {
    await c.client.create(
      jobs,
      job('perindex', ['exit', '1'], { completions: 2, parallelism: 2, completionMode: 'Indexed', backoffLimitPerIndex: 0 }),
    );
    const [done] = await c.until(jobs, ended('perindex', 'Failed'));
    expect(done?.status).toMatchObject({ failed: 2, failedIndexes: '0,1' });
  });

  it('Job should delete a job', async () => {
    await c.client.create(jobs, job('long', ['sleep', '3600'], { parallelism: 2, completions: 2 }));
    await c.until(pods, (all) => all.length === 2);
    await c.client.delete(jobs, at('long'), { propagationPolicy: 'Foreground' });
    await c.until(jobs, (all) => !all.some(is('long')));
    await c.until(pods, (all) => all.length === 0);
  });

  it('Job should adopt matching orphans and release non-matching pods', async () => {
    await c.client.create(jobs, job('adopt', ['sleep', '3600']));
    const [pod] = await c.until(pods, (all) => all.length === 1);
    const name = pod?.metadata?.name ?? '';
    await c.client.patch(pods, at(name), 'merge', { metadata: { ownerReferences: null } });
    await c.until(pods, (all) => all.find(is(name))?.metadata?.ownerReferences?.[0]?.name === 'adopt');
    await c.client.patch(pods, at(name), 'merge', { metadata: { labels: { 'batch.kubernetes.io/controller-uid': null } } });
    await c.until(pods, (all) => (all.find(is(name))?.metadata?.ownerReferences ?? []).length === 0);
  });

  it('CronJob should support CronJob API operations', async () => {
    const cron: CronJob = {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: meta('cj'),
      spec: { schedule: '0 0 31 2 *', jobTemplate: { spec: job('x', ['true']).spec as Job['spec'] & object } },
    };
    await c.client.create(cronJobs, cron);
    await c.client.patch(cronJobs, at('cj'), 'merge', { spec: { suspend: true } });
    await c.client.patch(cronJobs, at('cj'), 'merge', { status: { lastScheduleTime: '2026-01-01T00:00:00Z' } }, { subresource: 'status' });
    expect((await c.client.get(cronJobs, at('cj'))).status?.lastScheduleTime).toBe('2026-01-01T00:00:00Z');
    await c.client.deleteCollection(cronJobs, { namespace: c.namespace });
    await c.until(cronJobs, (all) => all.length === 0);
  });

  it('DisruptionController should block an eviction until the PDB is updated to allow it', async () => {
    await c.client.create(replicaSets, replicaSet(3));
    const all = await c.until(pods, (some) => some.filter(ready).length === 3);
    const name = all[0]?.metadata?.name ?? '';
    await c.client.create(podDisruptionBudgets, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: meta('pdb'),
      spec: { minAvailable: 3, selector },
    });
    await c.until(podDisruptionBudgets, ([one]) => one?.status?.currentHealthy === 3 && one.status.observedGeneration === 1);
    const evict = () =>
      c.client.create<KubeObject>(
        pods as Resource<KubeObject>,
        { apiVersion: 'policy/v1', kind: 'Eviction', metadata: at(name) },
        { subresource: 'eviction', name: at(name) },
      );
    const refused = await evict().catch((error: unknown) => error);
    expect(isStatus(refused, 'TooManyRequests')).toBe(true);
    await c.client.patch(podDisruptionBudgets, at('pdb'), 'merge', { spec: { minAvailable: 2 } });
    await c.until(podDisruptionBudgets, ([one]) => one?.status?.disruptionsAllowed === 1);
    await evict();
    await c.until(pods, (some) => !some.some(is(name)));
    await c.until(pods, (some) => some.filter(ready).length === 3);
  });
});
