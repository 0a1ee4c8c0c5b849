import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Helm, helmMissing } from '../harness/helm.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';

const chart = join(root, 'e2e', 'fixtures', 'helm-chart');
const reason = helmMissing();

interface Hook {
  readonly name: string;
  readonly last_run: { readonly started_at?: string; readonly completed_at?: string; readonly phase: string };
}
interface Release {
  readonly version: number;
  readonly info: { readonly status: string; readonly notes: string };
  readonly hooks: readonly Hook[];
}
interface Revision {
  readonly revision: number;
  readonly status: string;
  readonly description: string;
}
interface Managed {
  readonly metadata: { readonly managedFields: readonly { readonly manager: string; readonly operation: string }[] };
}

/** A chart of other authors, from its installation to its end. Tests continue with the release of the previous one. */
describe.skipIf(reason !== undefined && !everythingIsNeeded)(`Helm 4${reason === undefined ? '' : ` (${reason})`}`, () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let helm: Helm;
  const waited = ['--wait', '--timeout', '180s'];
  const get = (what: string, path: string) => cluster.kubectl.run(['get', ...what.split(' '), '-o', `jsonpath=${path}`]);
  const greeting = () => get('configmap journey', '{.data.greeting}');
  const jobs = async () => (await cluster.kubectl.run(['get', 'jobs', '-o', 'name'])).trim().split('\n');
  const history = () => helm.json<readonly Revision[]>(['history', 'journey']);
  const status = () => helm.json<Release>(['status', 'journey']);
  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
    helm = new Helm(cluster);
  });

  it('installs custom resources, runs hooks by weight, removes those that succeeded, and waits until all objects are ready', async () => {
    await helm.run(['install', 'journey', chart, ...waited]);
    expect(await get('configmap journey', '{.data}')).toBe('{"apis":"true","greeting":"hello","namespace":"default","revision":"1"}');
    expect(await get('widget journey', '{.spec}')).toBe('{"parts":[{"count":1,"name":"wheel"}],"size":3}');
    expect(await get('deployment journey', '{.status.availableReplicas}')).toBe('1');
    expect(await jobs()).toEqual(['job.batch/journey-first', 'job.batch/journey-last']);
    const { hooks, info } = await status();
    expect(info).toMatchObject({ status: 'deployed', notes: expect.stringMatching(/^journey greets with hello on v1\.36\./) });
    const [first, second, last] = ['first', 'second', 'last'].map(
      (name) => hooks.find((hook) => hook.name === `journey-${name}`)?.last_run,
    );
    expect([first?.phase, second?.phase, last?.phase]).toEqual(['Succeeded', 'Succeeded', 'Succeeded']);
    expect(Date.parse(second?.started_at ?? '')).toBeGreaterThanOrEqual(Date.parse(first?.completed_at ?? ''));
    expect(Date.parse(last?.started_at ?? '')).toBeGreaterThanOrEqual(Date.parse(second?.completed_at ?? ''));
    // a dry run at the server reads from the cluster
    expect(await helm.run(['upgrade', 'journey', chart, '--dry-run=server'])).toMatch(/revision: "2"\n.*\n {2}namespace: "default"/);
    expect(await helm.json(['list'])).toMatchObject([
      { name: 'journey', namespace: 'default', revision: '1', status: 'deployed', chart: 'journey-1.2.3', app_version: '4.5' },
    ]);
  });

  it('runs the tests of the release and prints their logs', async () => {
    const tested = await helm.run(['test', 'journey', '--logs', '--timeout', '180s']);
    expect(tested).toMatch(/Phase: +Succeeded/);
    expect(tested).toContain('greeting: hello\n');
  });

  it('applies an upgrade at the server, and leaves fields of other managers to them', async () => {
    const { metadata } = await cluster.kubectl.json<Managed>(['get', 'deployment', 'journey', '--show-managed-fields']);
    expect(metadata.managedFields).toContainEqual(expect.objectContaining({ manager: 'helm', operation: 'Apply' }));
    await cluster.kubectl.run(['scale', 'deployment', 'journey', '--replicas=2']);
    await cluster.kubectl.run(['label', 'configmap', 'journey', 'kept=yes']);
    const conflict = await helm.try(['upgrade', 'journey', chart, '--set', 'greeting=hi,replicas=3', ...waited]);
    expect(conflict).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        / 1 conflict: conflict with "kubectl[^"]*" with subresource "scale" using apps\/v1: \.spec\.replicas\n/,
      ),
    });
    await helm.run(['upgrade', 'journey', chart, '--set', 'greeting=hi,replicas=3', '--force-conflicts', ...waited]);
    expect(await get('deployment journey', '{.spec.replicas} {.status.availableReplicas}')).toBe('3 3');
    expect(await get('configmap journey', '{.data.greeting} {.metadata.labels.kept}')).toBe('hi yes');
    expect((await history()).map((each) => each.status)).toEqual(['superseded', 'failed', 'deployed']);
  });

  it('rolls back an upgrade whose hook fails, and removes the hook that failed', async () => {
    const failed = await helm.try([
      'upgrade',
      'journey',
      chart,
      '--set',
      'greeting=bad,failing=true',
      '--rollback-on-failure',
      '--timeout',
      '180s',
    ]);
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('post-upgrade hooks failed') });
    expect(await greeting()).toBe('hi');
    expect(await get('deployment journey', '{.spec.replicas} {.status.availableReplicas}')).toBe('3 3');
    expect(await jobs()).toEqual(['job.batch/journey-back', 'job.batch/journey-first']);
    expect((await history()).slice(-2)).toMatchObject([
      { revision: 4, status: 'failed' },
      { revision: 5, status: 'deployed', description: 'Rollback to 3' },
    ]);
  });

  it('rolls back to a named revision, and a failed test fails the command', async () => {
    await helm.run(['rollback', 'journey', '1', '--force-conflicts', ...waited]);
    expect(await greeting()).toBe('hello');
    expect(await get('deployment journey', '{.spec.replicas} {.status.availableReplicas}')).toBe('1 1');
    await helm.run(['upgrade', 'journey', chart, '--set', 'failingTest=true', ...waited]);
    const tested = await helm.try(['test', 'journey', '--logs', '--timeout', '180s']);
    expect(tested).toMatchObject({ code: 1, stdout: expect.stringContaining('greeting: hello\n') });
  });

  it('uninstalls all objects but custom resource definitions, after its hook', async () => {
    expect(await helm.run(['uninstall', 'journey', ...waited])).toContain('release "journey" uninstalled');
    expect(await cluster.kubectl.run(['get', 'deployments,replicasets,widgets,configmaps,secrets', '-o', 'name'])).toBe(
      'configmap/kube-root-ca.crt\n',
    );
    expect(await jobs()).toContain('job.batch/journey-end');
    expect(await cluster.kubectl.run(['get', 'crd', 'widgets.journey.example', '-o', 'name'])).toContain('widgets.journey.example');
    expect(await helm.json(['list', '--all-namespaces'])).toEqual([]);
  });
});
