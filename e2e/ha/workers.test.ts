import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { Api, openRequest, readAnswer, type CallOptions } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { seed, seeded } from '../harness/random.ts';
import { until } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';

/** Number of faults: SIGKILL of a worker and of the first process in turns. */
const faultCount = Number(process.env['OARLOCK_HA_ROUNDS'] ?? 2);
const clients = 3;

interface Review {
  readonly status: { readonly authenticated?: boolean };
}

describe('an API server with three processes', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await machine.cluster({
      spec: {
        ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }),
        roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
        paths: ['console'],
        settings: { apiserver: { workers: 3 }, kubelet: { port: 0 } },
      },
    });
    await cluster.kubectl.run(['create', 'namespace', 'ha']);
  });

  const workerPids = async (): Promise<readonly number[]> => {
    const { pid } = cluster;
    return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).split(' ').filter(Boolean).map(Number);
  };
  const untilAllServe = () =>
    until('all workers serve', async () => {
      const { body } = await cluster.api.call('GET', '/metrics');
      return /^oarlock_apiserver_processes 3$/m.test(body);
    });

  it('shows each write to every process at once, whichever process served it', async () => {
    const apis = await Promise.all(Array.from({ length: 6 }, () => Api.of(cluster.kubeconfig)));
    const path = '/api/v1/namespaces/default/configmaps';
    for (const [index, api] of apis.entries()) {
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `seen-${index}` } };
      expect((await api.call('POST', path, { body })).status).toBe(201);
      const seen = await Promise.all(apis.map((other) => other.call('GET', `${path}/seen-${index}`)));
      expect(seen.map(({ status }) => status)).toEqual(apis.map(() => 200));
    }
    const group = 'workers.example.com';
    const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `oars.${group}` },
      spec: {
        group,
        names: { plural: 'oars', singular: 'oar', kind: 'Oar', listKind: 'OarList' },
        scope: 'Namespaced',
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    };
    await cluster.kubectl.apply(definition);
    for (const api of apis)
      await until('the process serves the custom resource', async () => {
        const { status } = await api.call('GET', `/apis/${group}/v1/namespaces/ha/oars`);
        return status === 200;
      });
    // one server: one Lease, one address, and the metrics of all processes
    const leases = await cluster.kubectl.run(['get', 'leases', '-n', 'kube-system', '-o', 'name']);
    expect(leases.match(/lease\S*\/apiserver-/g)).toHaveLength(1);
    const slice = await cluster.kubectl.run(['get', 'endpointslice', 'kubernetes', '-o', 'jsonpath={.endpoints[*].addresses}']);
    expect(slice.match(/\d+\.\d+\.\d+\.\d+/g)).toHaveLength(1);
    for (const api of apis) {
      const { body } = await api.call('GET', '/metrics');
      const created = /^apiserver_request_total\{verb="POST",.*resource="configmaps",.*code="201"\} (\d+)$/m.exec(body);
      expect(Number(created?.[1])).toBe(apis.length);
    }
    for (const api of apis) api.close();
    const audit = await readFile(`${cluster.dataDir}/plugins/audit-log/audit.log`, 'utf8');
    const lines = audit.split('\n').slice(0, -1);
    expect(lines.map((line) => (JSON.parse(line) as { readonly kind: string }).kind)).toEqual(lines.map(() => 'Event'));
  });

  it('serves streams, rotated keys and sessions of the console, whichever process has the connection', async () => {
    const apis = await Promise.all(Array.from({ length: 6 }, () => Api.of(cluster.kubeconfig)));
    const { kubectl } = cluster;
    // the container waits for two minutes, longer than any command of the test
    await kubectl.run(['run', 'streams', '--image=any', '--restart=Never', '--', 'sleep', '100000']);
    await kubectl.run(['wait', 'pod/streams', '--for=condition=Ready', '--timeout=300s']);
    const commands = [
      ['exec', 'streams', '--', 'echo', 'reached'],
      ['logs', 'streams'],
    ];
    const outputs = await Promise.all([...commands, ...commands, ...commands].map((command) => kubectl.run(command)));
    for (const [index, output] of outputs.entries()) expect(output).toContain(index % 2 === 0 ? 'reached' : 'sleep');

    const token = async () => (await kubectl.run(['create', 'token', 'default'])).trim();
    const before = await token();
    const { code, stderr } = await cluster.oarlock('keys', 'rotate');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const each of [before, await token()])
      for (const api of apis)
        await until('the process accepts the token', async () => {
          const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: each } };
          const review = await api.json<Review>('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { body });
          return review.status.authenticated === true;
        });

    // each request has a connection, and concurrent ones are distributed to the processes
    const { server, tls } = cluster.api;
    const call = async (method: string, path: string, options: CallOptions) =>
      readAnswer(await openRequest(new URL(path, server), options, { method, ca: tls.ca, agent: false }));
    const page = { 'x-oarlock-console': randomBytes(32).toString('base64url') };
    const { stdout: link } = await cluster.oarlock('console');
    const signIn = { body: { link: /sign-in\/([\w-]{43})/.exec(link)?.[1] }, headers: page };
    const signedIn = await call('POST', '/console/session', signIn);
    expect(signedIn.status).toBe(201);
    const session = { headers: { ...page, cookie: signedIn.headers['set-cookie']?.[0]?.split(';')[0] ?? '' } };
    const statuses = () => Promise.all(apis.map(async () => (await call('GET', '/api/v1/pods', session)).status));
    expect(await statuses()).toEqual(apis.map(() => 200));
    expect((await call('DELETE', '/console/session', session)).status).toBe(200);
    expect(await statuses()).toEqual(apis.map(() => 401));
    for (const api of apis) api.close();
  });

  it(`loses no write and keeps the guarantees of reads and watches when processes are killed (seed ${seed})`, {
    timeout: 24 * 3_600_000,
  }, async () => {
    const random = seeded(seed);
    const recorder = new HistoryRecorder(
      Array.from({ length: clients }, () => cluster.kubeconfig),
      { namespace: 'ha', random: seeded(seed + 1) },
    );
    await untilAllServe();
    await recorder.start(4);
    await recorder.untilWritten('before the faults');
    for (let round = 1; round <= faultCount; round++) {
      if (round % 2 === 0) {
        await cluster.kill9();
        await cluster.up();
      } else {
        const pids = await workerPids();
        process.kill(pids[Math.floor(random() * pids.length)] as number, 'SIGKILL');
      }
      await recorder.untilWritten(`after fault ${round}`);
      await untilAllServe();
      await recorder.untilWritten(`with all processes after fault ${round}`);
    }
    const { lost, violations, ...counts } = checkHistory(await recorder.finish());
    console.log(
      JSON.stringify({ faults: faultCount, ...counts, relists: recorder.relists, lost: lost.length, violations: violations.length }),
    );
    expect(lost).toEqual([]);
    expect(violations.slice(0, 20)).toEqual([]);
  });
});
