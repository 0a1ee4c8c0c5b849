/**
 * Measures the processor time of writes: pods are created, bound and updated through the loopback handler, with five informers and one watch
 * per node. Run: npm run bench -- apiserver
 */
import { generateKeyPairSync } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ApiHandler, ApiRequest } from '@oarlock/spi/loopback';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { loopbackHandler } from '../src/pipeline/loopback-handler.ts';
import { Pipeline } from '../src/pipeline/pipeline.ts';

const [count = 10_000, nodes = 1_000] = process.argv.slice(2).map(Number);
const parallel = 64;
const identity = { name: 'bench', groups: ['system:masters'] };
const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const pipeline = new Pipeline({
  storage: new MemoryStorage(),
  authz: [{ authorize: () => ({ decision: 'allow', reason: 'bench' }) }],
  admission: [],
  clock: systemClock,
  log: silentLogger,
  clusterFacts: {
    name: 'bench',
    domain: 'cluster.local',
    podCIDRs: ['10.244.0.0/16'],
    serviceCIDRs: ['10.96.0.0/16'],
    kubernetesServiceIP: '10.96.0.1',
    dnsServiceIP: '10.96.0.10',
    serverUrl: 'https://192.0.2.1:6443',
    nodePortRange: { from: 30000, to: 32767 },
    version: 'v1.36.0',
  },
  clusterKeys: {
    caBundle: '',
    issue: () => Promise.reject(new Error('none')),
    sign: () => Promise.reject(new Error('none')),
    serviceAccount: { issuer: 'bench', signingKey: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), verifyingKeys: [] },
  },
});
await pipeline.start();
const handler: ApiHandler = loopbackHandler(pipeline, () => Promise.reject(new Error('no paths')));
const request = (verb: ApiRequest['verb'], more: Partial<ApiRequest>): ApiRequest => ({
  verb,
  resource: pods,
  subresource: '',
  namespace: 'default',
  name: '',
  query: {},
  identity,
  ...more,
});

const stop = new AbortController();
let events = 0;
const cache = new Map<string, Pod>();
async function follow(query: ApiRequest['query'], keep: boolean): Promise<void> {
  const response = await handler.handle(request('watch', { namespace: '', query, signal: stop.signal }));
  if (response.kind !== 'watch') return;
  void (async () => {
    for await (const batch of response.events) {
      events += batch.length;
      if (keep) for (const { object } of batch) cache.set(object.metadata?.name ?? '', object as Pod);
    }
  })();
}
for (let i = 0; i < 5; i++) await follow({ resourceVersion: '0', allowWatchBookmarks: 'true' }, i === 0);
for (let i = 0; i < nodes; i++) await follow({ fieldSelector: `spec.nodeName=node-${i}`, resourceVersion: '0' }, false);

const template = (name: string): Pod => ({
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: {
    name,
    namespace: 'default',
    labels: { app: 'hello', 'pod-template-hash': '5d4f8c7b9' },
    ownerReferences: [
      {
        apiVersion: 'apps/v1',
        kind: 'ReplicaSet',
        name: 'hello-5d4f8c7b9',
        uid: '7c1c4c2e-9a0b-4a51-8f57-3a5b8a0f9b11',
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  },
  spec: {
    containers: [
      {
        name: 'main',
        image: 'registry.example/hello:1',
        ports: [{ containerPort: 8080 }],
        resources: { requests: { cpu: '100m', memory: '64Mi' }, limits: { memory: '128Mi' } },
        env: [{ name: 'PORT', value: '8080' }],
        readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 5 },
        volumeMounts: [{ name: 'kube-api-access-x7k2p', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
      },
    ],
    serviceAccountName: 'default',
    volumes: [
      {
        name: 'kube-api-access-x7k2p',
        projected: {
          defaultMode: 420,
          sources: [
            { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
            { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
          ],
        },
      },
    ],
  },
});

async function each(what: string, work: (i: number) => Promise<unknown>): Promise<void> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      while (next < count) await work(next++);
    }),
  );
  // time for the informers to read all events
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    `${what.padEnd(22)} ${(((performance.now() - began) / count) * 1000).toFixed(1).padStart(7)} us wall  ${((user + system) / count).toFixed(1).padStart(7)} us cpu each`,
  );
}

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
const began = process.cpuUsage();
await each('create', (i) => handler.handle(request('create', { body: template(`pod-${i}`) })));
await each('bind', (i) =>
  handler.handle(
    request('create', {
      subresource: 'binding',
      name: `pod-${i}`,
      body: {
        kind: 'Binding',
        apiVersion: 'v1',
        metadata: { name: `pod-${i}`, namespace: 'default' },
        target: { kind: 'Node', name: `node-${i % nodes}` },
      },
    }),
  ),
);
const at = '2026-01-01T00:00:00Z';
const condition = (type: string, status: string) => ({ type, status, lastTransitionTime: at });
const statuses = [
  {
    hostIP: '192.0.2.7',
    hostIPs: [{ ip: '192.0.2.7' }],
    startTime: at,
    conditions: [condition('Initialized', 'True'), condition('Ready', 'False'), condition('ContainersReady', 'False')],
  },
  {
    phase: 'Running',
    podIP: '10.244.1.7',
    podIPs: [{ ip: '10.244.1.7' }],
    containerStatuses: [
      {
        name: 'main',
        image: 'registry.example/hello:1',
        imageID: 'sha256:1',
        ready: false,
        restartCount: 0,
        started: true,
        state: { running: { startedAt: at } },
      },
    ],
  },
  { conditions: [condition('Initialized', 'True'), condition('Ready', 'True'), condition('ContainersReady', 'True')] },
];
for (const [round, status] of statuses.entries()) {
  if (round === 1) {
    await each('status, strategic', (i) =>
      handler.handle(request('patch', { subresource: 'status', name: `pod-${i}`, patchType: 'strategic', body: { status } })),
    );
    continue;
  }
  await each('status, put', (i) => {
    const pod = cache.get(`pod-${i}`) as Pod;
    return handler.handle(
      request('update', { subresource: 'status', name: `pod-${i}`, body: { ...pod, status: { ...pod.status, ...status } } }),
    );
  });
}
const { user, system } = process.cpuUsage(began);
await new Promise((resolve) => {
  setTimeout(resolve, 100);
});
const total = (user + system) / 1e6;
console.log(
  `total ${total.toFixed(2)} s of CPU for ${count * 5} writes: ${((total / count / 5) * 1e6).toFixed(1)} us each; ${events} events delivered; loop held at most ${(delay.max / 1e6).toFixed(0)} ms, p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms; ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`,
);
stop.abort();
await pipeline.stop();
