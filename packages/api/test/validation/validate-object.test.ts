import { describe, expect, it } from 'vitest';

import { lines, change, stored, meta, container, pod, withContainer, deployment, service } from '../fixtures/validation.ts';

describe('valid objects pass', () => {
  it.each([
    ['pod', pod],
    ['deployment', deployment],
    ['replica set', { ...deployment, kind: 'ReplicaSet' }],
    ['daemon set', { ...deployment, kind: 'DaemonSet' }],
    ['stateful set', { ...deployment, kind: 'StatefulSet' }],
    [
      'stateful set whose containers mount its claims',
      change(deployment, {
        kind: 'StatefulSet',
        spec: {
          template: { spec: { containers: [{ ...container, volumeMounts: [{ name: 'data', mountPath: '/data' }] }] } },
          volumeClaimTemplates: [
            { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
          ],
        },
      }),
    ],
    ['service', service],
    ['headless service', change(service, { spec: { clusterIP: 'None', clusterIPs: ['None'], ports: null } })],
    ['config map', { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta('c'), data: { a: 'b' } }],
    ['secret', { apiVersion: 'v1', kind: 'Secret', metadata: meta('c'), data: { a: 'eA==' } }],
    ['namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: meta('n', ''), spec: { finalizers: ['kubernetes'] } }],
    [
      'node',
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: meta('n.x', ''),
        spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] },
        status: { capacity: { cpu: '1', 'example.com/gpu': '2' } },
      },
    ],
    ['service account', { apiVersion: 'v1', kind: 'ServiceAccount', metadata: meta('c') }],
    ['lease', { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: meta('c'), spec: { leaseDurationSeconds: 1 } }],
    ['role', { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: meta('system:A b'), rules: [] }],
    ['event', { apiVersion: 'v1', kind: 'Event', metadata: meta('c.1'), involvedObject: { namespace: 'default' } }],
    ['storage class', { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: meta('c', ''), provisioner: 'x' }],
    [
      'endpoint slice',
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: meta('c'),
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.1'] }],
        ports: [{ port: 1 }],
      },
    ],
    [
      'claim',
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: meta('c'),
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    ],
    [
      'volume',
      {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: meta('c', ''),
        spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, hostPath: { path: '/x' } },
      },
    ],
    ['binding', { apiVersion: 'v1', kind: 'Binding', metadata: { name: 'p' }, target: { kind: 'Node', name: 'n' } }],
    ['custom resource', { apiVersion: 'example.com/v1', kind: 'Thing', metadata: meta('x'), spec: { any: 1 } }],
    [
      'pod with everything',
      withContainer(
        {
          ports: [{ name: 'http', containerPort: 80 }],
          env: [
            { name: 'A', value: 'x' },
            { name: 'B=', valueFrom: undefined },
          ].slice(0, 1),
          envFrom: [{ secretRef: { name: 's' } }],
          resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } },
          volumeMounts: [
            { name: 'v', mountPath: '/v', subPath: 'x/y' },
            { name: 't', mountPath: '/t' },
          ],
          livenessProbe: { httpGet: { port: 'http' } },
          lifecycle: { preStop: { sleep: { seconds: 5 } } },
          securityContext: { runAsUser: 0, seccompProfile: { type: 'RuntimeDefault' } },
        },
        {
          serviceAccountName: 'default',
          volumes: [
            { name: 'v', emptyDir: {} },
            {
              name: 't',
              projected: {
                sources: [{ serviceAccountToken: { path: 'token' } }, { configMap: { name: 'c', items: [{ key: 'k', path: 'ca.crt' }] } }],
              },
            },
          ],
          tolerations: [{ operator: 'Exists' }, { key: 'a', operator: 'Equal', value: 'b', effect: 'NoExecute', tolerationSeconds: 300 }],
          nodeSelector: { a: 'b' },
          initContainers: [
            { name: 'i', image: 'x' },
            { name: 's', image: 'x', restartPolicy: 'Always', readinessProbe: { tcpSocket: { port: 1 } } },
          ],
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [
                  {
                    matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }],
                    matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n'] }],
                  },
                ],
              },
            },
            podAntiAffinity: {
              preferredDuringSchedulingIgnoredDuringExecution: [
                { weight: 1, podAffinityTerm: { topologyKey: 'h', labelSelector: { matchLabels: { a: 'b' } } } },
              ],
            },
          },
          topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'z', whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} }],
          dnsConfig: { nameservers: ['1.1.1.1'], searches: ['a.b.', '_srv.x'] },
          hostAliases: [{ ip: '1.1.1.1', hostnames: ['a.b'] }],
        },
      ),
    ],
  ])('%s', (_, object) => expect(lines(object)).toEqual([]));
});

describe('metadata', () => {
  it.each([
    [{ name: '' }, 'metadata.name: Required value: name or generateName is required'],
    [{ name: 'A' }, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'],
    [{ namespace: null }, 'metadata.namespace: Required value'],
    [{ labels: { 'a b': 'c' } }, 'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters'],
    [{ labels: { a: '-' } }, 'metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of'],
    [{ annotations: { '/': '' } }, 'metadata.annotations: Invalid value: "/": prefix part must be non-empty'],
    [{ annotations: { a: 'x'.repeat(262144) } }, 'metadata.annotations: Too long: may not be more than 262144 bytes'],
    [
      { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'a', uid: '' }] },
      'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ],
    [
      { ownerReferences: [1, 2].map((i) => ({ apiVersion: 'v1', kind: 'Pod', name: `a${i}`, uid: 'u', controller: true })) },
      'Only one reference can have Controller set to true. Found "true" in references for Pod/a1 and Pod/a2',
    ],
    [
      { finalizers: ['x'] },
      'metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified',
    ],
    [{ generateName: 'AA-' }, 'metadata.generateName: Invalid value: "AA-": a lowercase RFC 1123 subdomain'],
  ])('%j', (patch, expected) => expect(lines(change(pod, { metadata: patch })).join('\n')).toContain(expected));
  it('has rules by kind', () => {
    expect(lines({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a.b' } })).toEqual([
      'metadata.name: Invalid value: "a.b": must not contain dots',
    ]);
    expect(lines({ apiVersion: 'v1', kind: 'Node', metadata: meta('a') })).toEqual([
      'metadata.namespace: Forbidden: not allowed on this type',
    ]);
    expect(lines(change(service, { metadata: { ...service.metadata, name: '1a' } }))).toEqual([]);
    expect(lines(change(service, { metadata: { name: 'a.b' } }))[0]).toBe('metadata.name: Invalid value: "a.b": must not contain dots');
    expect(lines({ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'a/b' } })).toEqual([
      'metadata.name: Invalid value: "a/b": may not contain \'/\'',
    ]);
  });
  it('has immutable fields', () => {
    const old = change(pod, { metadata: { ...stored, finalizers: ['a.b/c'], deletionTimestamp: '2026-01-02T00:00:00Z' } });
    expect(
      lines(
        change(old, { metadata: { name: 'q', uid: 'v', resourceVersion: null, finalizers: ['a.b/c', 'a.b/d'], deletionTimestamp: null } }),
        old,
      ),
    ).toEqual([
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/d"}',
      'metadata.resourceVersion: Invalid value: "": must be specified for an update',
      'metadata.name: Invalid value: "q": field is immutable',
      'metadata.uid: Invalid value: "v": field is immutable',
      'metadata.deletionTimestamp: Invalid value: null: field is immutable',
    ]);
  });
});
