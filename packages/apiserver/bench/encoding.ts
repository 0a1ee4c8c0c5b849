/**
 * Measures the time to encode pods as JSON and as protobuf: one pod, and a list of pods, with and without cached encodings.
 * Run: npm run bench -- encoding
 */
import type { KubeObject } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { encodingFor } from '../src/endpoints/negotiation/encoding.ts';
import { loadCodec } from '../src/endpoints/negotiation/protobuf-codec.ts';
import { decodeProtobuf } from '../src/endpoints/negotiation/protobuf-decoder.ts';
import type { ResponseEncoding } from '../src/endpoints/negotiation/response-encoding.ts';
import type { ByteSink, EncodedObject } from '../src/endpoints/request/response.ts';
import { Codec } from '../src/watch-cache/item.ts';

const [count = 5000] = process.argv.slice(2).map(Number);
const codec = await loadCodec();
const stored = new Codec('v1', 'Pod');
const pod = (i: number): KubeObject =>
  ({
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      name: `web-5d4f8c7b9-${i}`,
      generateName: 'web-5d4f8c7b9-',
      namespace: 'default',
      uid: `0b0a6d3e-2f5f-4d7e-8a0b-${String(i).padStart(12, '0')}`,
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: 'hello', 'pod-template-hash': '5d4f8c7b9' },
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-5d4f8c7b9', uid: '0b0a6d3e', controller: true, blockOwnerDeletion: true },
      ],
    },
    spec: {
      volumes: [{ name: 'api-access', projected: { sources: [{ serviceAccountToken: { expirationSeconds: 3607, path: 'token' } }] } }],
      containers: [
        {
          name: 'nginx',
          image: 'nginx:1.27',
          ports: [{ containerPort: 80, protocol: 'TCP' }],
          env: [{ name: 'A', value: 'b' }],
          resources: { limits: { cpu: '100m', memory: '128Mi' }, requests: { cpu: '50m', memory: '64Mi' } },
          volumeMounts: [{ name: 'api-access', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
          livenessProbe: { httpGet: { path: '/', port: 80, scheme: 'HTTP' }, timeoutSeconds: 1, periodSeconds: 10 },
          terminationMessagePath: '/dev/termination-log',
          imagePullPolicy: 'IfNotPresent',
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      nodeName: 'node-1',
      schedulerName: 'default-scheduler',
      tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 }],
    },
    status: {
      phase: 'Running',
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) => ({
        type,
        status: 'True',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      })),
      podIP: '10.244.0.5',
      podIPs: [{ ip: '10.244.0.5' }],
      containerStatuses: [
        {
          name: 'nginx',
          state: { running: { startedAt: '2026-01-01T00:00:00Z' } },
          lastState: {},
          ready: true,
          restartCount: 0,
          image: 'nginx:1.27',
          imageID: `sha256:${'0'.repeat(64)}`,
        },
      ],
      qosClass: 'Burstable',
    },
  }) as KubeObject;

const items = (): readonly EncodedObject[] =>
  Array.from({ length: count }, (_, i) =>
    stored.item({ key: `default/${i}`, object: pod(i), value: stored.encode(pod(i)), revision: i + 1 }),
  );
const options = { includeObject: 'Metadata', now: () => 0 } as const;
const encodings: Readonly<Record<string, ResponseEncoding>> = {
  json: encodingFor({ format: 'json', transform: undefined, version: 'v1', pretty: false }, 'list', pods, options),
  protobuf: encodingFor({ format: 'protobuf', transform: undefined, version: 'v1', pretty: false }, 'list', pods, options),
};

function list(encoding: ResponseEncoding, all: readonly EncodedObject[]): Buffer {
  const parts: Uint8Array[] = [];
  let length = 0;
  if (encoding.itemLength !== undefined) for (const item of all) length += encoding.itemLength(item);
  parts.push(encoding.listHead({ resourceVersion: '1' }, length));
  let first = true;
  const sink: ByteSink = {
    // short parts are written into buffers that are used again
    add: (bytes, start = 0) => parts.push(bytes.length <= 10 ? bytes.slice(start) : bytes.subarray(start)),
    addDecimal: (value) => parts.push(Buffer.from(String(value))),
  };
  for (const item of all) {
    encoding.listItem(item, first, sink);
    first = false;
  }
  parts.push(encoding.listTail({}));
  return Buffer.concat(parts);
}

function time(name: string, runs: number, work: (run: number) => unknown): void {
  const began = performance.now();
  for (let run = 0; run < runs; run++) work(run);
  console.log(`${name.padEnd(44)} ${(((performance.now() - began) / runs) * 1000).toFixed(1).padStart(10)} us`);
}

for (let warm = 0; warm < 2; warm++) for (const encoding of Object.values(encodings)) list(encoding, items());
for (const [name, encoding] of Object.entries(encodings)) {
  const fresh = items();
  const bytes = list(encoding, fresh).length;
  const cold = items();
  time(`${name}: ${count} pods, nothing encoded`, 1, () => list(encoding, cold));
  time(`${name}: ${count} pods, all encoded (${bytes} bytes)`, 20, () => list(encoding, cold));
  time(`${name}: one pod after the other, encoded`, count, (run) => encoding.item(cold[run] as EncodedObject));
}
const wide = items();
time('write a pod as JSON, from the object', count, (run) => Buffer.from(JSON.stringify((wide[run] as EncodedObject).object)));
time('write a pod as protobuf', count, (run) => codec.message((wide[run] as EncodedObject).object));
const body = (encodings['protobuf'] as ResponseEncoding).item(wide[0] as EncodedObject);
const text = (encodings['json'] as ResponseEncoding).item(wide[0] as EncodedObject);
time('read a pod from JSON', count, () => JSON.parse(text.toString('utf8')));
time('read a pod from protobuf', count, () => decodeProtobuf(body));
