import { cronJobs, jobs, nodes, pods } from '@oarlock/api/resources';
import cronJob from '@oarlock/controllers/batch/cron-job/cron-job-controller';
import job from '@oarlock/controllers/batch/job/job-controller';
import nodeLifecycle from '@oarlock/controllers/node/node-lifecycle/node-lifecycle-controller';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { PluginHost } from '@oarlock/kernel/plugin-host';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { isLive, setPodTerminated } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { runControllers } from '../support/running-controllers.ts';

/** Runs a controller, and returns functions that read its metrics. */
async function withMetrics(plugin: Plugin, seed?: (api: MemoryApi) => void) {
  const hosts: PluginHost[] = [];
  const life = await runControllers([plugin], {
    ...(seed && { seed }),
    options: { config: plugin === cronJob ? { timeZone: 'UTC' } : {}, provide: (host) => void hosts.push(host) },
  });
  const lines = async () => {
    const texts = await Promise.all(hosts.flatMap((host) => host.plugins.map(({ metrics }) => metrics.metrics())));
    return texts.join('\n').split('\n');
  };
  return { ...life, linesOf: async (name: string) => (await lines()).filter((line) => line.startsWith(name)) };
}

const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a:1' }] } };

describe('the metrics of controllers', () => {
  it.each([
    ['CompletionsReached', 0, 'succeeded'],
    ['BackoffLimitExceeded', 1, 'failed'],
  ])('count the syncs of a Job, its pods and its end (%s)', async (reason, exitCode, result) => {
    const { api, clock, linesOf } = await withMetrics(job);
    const spec = {
      backoffLimit: 0,
      selector: { matchLabels: { 'job-name': 'work' } },
      template: { ...template, metadata: { labels: { 'job-name': 'work' } } },
    };
    await api.client().create(jobs, { apiVersion: 'batch/v1', kind: 'Job', metadata: { namespace: 'd', name: 'work' }, spec });
    await clock.settle();
    const pod = api.objects(pods, 'd').find(isLive);
    if (pod === undefined) throw new Error('the Job has no pod');
    await setPodTerminated(api, { pod, exitCode, at: clock.now(), conditions: [] });
    await clock.settle();
    const mode = 'completion_mode="NonIndexed"';
    expect(await linesOf('job_controller_job_pods_finished_total')).toEqual([
      `job_controller_job_pods_finished_total{${mode},result="${result}"} 1`,
    ]);
    expect(await linesOf('job_controller_jobs_finished_total')).toEqual([
      `job_controller_jobs_finished_total{${mode},result="${result}",reason="${reason}"} 1`,
    ]);
    const created = `{${mode},result="success",action="pods_created"} 1`;
    expect(await linesOf('job_controller_job_syncs_total')).toContain(`job_controller_job_syncs_total${created}`);
    expect(await linesOf('job_controller_job_sync_duration_seconds_count')).toContain(
      `job_controller_job_sync_duration_seconds_count${created}`,
    );
  });

  it('have the time by which a CronJob creates its Job late', async () => {
    const { api, clock, linesOf } = await withMetrics(cronJob);
    await api.client().create(cronJobs, {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { namespace: 'd', name: 'tick' },
      spec: { schedule: '* * * * *', jobTemplate: { spec: { template } } },
    });
    await clock.settle();
    await clock.advance(60_200);
    expect(await linesOf('cronjob_controller_job_creation_skew_duration_seconds_count')).toEqual([
      'cronjob_controller_job_creation_skew_duration_seconds_count 1',
    ]);
  });

  it('count evicted nodes by region and zone', async () => {
    const node = (name: string, ready: string) => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { 'topology.kubernetes.io/region': 'r', 'topology.kubernetes.io/zone': 'z' } },
      spec: {},
      status: { conditions: [{ type: 'Ready', status: ready, reason: 'KubeletReady' }] },
    });
    const { linesOf } = await withMetrics(nodeLifecycle, (api) => api.seed(nodes, node('n1', 'False'), node('n2', 'True')));
    expect(await linesOf('node_collector_evictions_total')).toEqual(['node_collector_evictions_total{zone="r:\0:z"} 1']);
  });
});
