import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { gvkOf, kinds } from '@oarlock/api/kinds';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';

type Any = Record<string, unknown>;
const run = (apiVersion: string, kind: string, rest: Any) => {
  const object = deepFreeze({ apiVersion, kind, ...rest }) as KubeObject;
  const result = applyDefaults(gvkOf(object), object);
  expect(applyDefaults(gvkOf(object), deepFreeze(structuredClone(result))), 'idempotent').toEqual(result);
  return result as KubeObject & { spec: Any; status: Any } & Any;
};
const container = {
  imagePullPolicy: 'Always',
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  resources: {},
};
const template = {
  dnsPolicy: 'ClusterFirst',
  restartPolicy: 'Always',
  securityContext: {},
  terminationGracePeriodSeconds: 30,
  schedulerName: 'default-scheduler',
};

describe('pods', () => {
  it('get all defaults', () => {
    expect(
      run('v1', 'Pod', {
        spec: {
          serviceAccountName: 'sa',
          hostNetwork: true,
          containers: [
            {
              name: 'a',
              image: 'nginx',
              ports: [{ containerPort: 80 }],
              env: [{ name: 'E', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
              resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '100u' } },
              livenessProbe: { httpGet: { port: 80 }, periodSeconds: 5 },
              readinessProbe: { grpc: { port: 1 } },
              lifecycle: { preStop: { httpGet: { port: 1 } } },
            },
          ],
          initContainers: [{ name: 'i', image: 'r.io:5000/x:1.2' }],
          ephemeralContainers: [{ name: 'e', image: 'x@sha256:abc' }],
          volumes: [
            { name: 'empty' },
            { name: 's', secret: { secretName: 'x' } },
            { name: 'c', configMap: { name: 'x', defaultMode: 256 } },
            { name: 'h', hostPath: { path: '/x' } },
            {
              name: 'p',
              projected: {
                sources: [
                  { serviceAccountToken: { path: 't' } },
                  { downwardAPI: { items: [{ path: 'n', fieldRef: { fieldPath: 'metadata.name' } }] } },
                ],
              },
            },
            { name: 'd', downwardAPI: {} },
            { name: 'v', ephemeral: { volumeClaimTemplate: { spec: {} } } },
            { name: 'im', image: { reference: 'a:b' } },
          ],
        },
      }).spec,
    ).toEqual({
      ...template,
      enableServiceLinks: true,
      serviceAccountName: 'sa',
      serviceAccount: 'sa',
      hostNetwork: true,
      containers: [
        {
          ...container,
          name: 'a',
          image: 'nginx',
          ports: [{ containerPort: 80, hostPort: 80, protocol: 'TCP' }],
          env: [{ name: 'E', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } }],
          resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '1m', memory: '1Gi' } },
          livenessProbe: {
            httpGet: { port: 80, path: '/', scheme: 'HTTP' },
            periodSeconds: 5,
            timeoutSeconds: 1,
            successThreshold: 1,
            failureThreshold: 3,
          },
          readinessProbe: {
            grpc: { port: 1, service: '' },
            periodSeconds: 10,
            timeoutSeconds: 1,
            successThreshold: 1,
            failureThreshold: 3,
          },
          lifecycle: { preStop: { httpGet: { port: 1, path: '/', scheme: 'HTTP' } } },
        },
      ],
      initContainers: [{ ...container, imagePullPolicy: 'IfNotPresent', name: 'i', image: 'r.io:5000/x:1.2' }],
      ephemeralContainers: [{ ...container, imagePullPolicy: 'IfNotPresent', name: 'e', image: 'x@sha256:abc' }],
      volumes: [
        { name: 'empty', emptyDir: {} },
        { name: 's', secret: { secretName: 'x', defaultMode: 420 } },
        { name: 'c', configMap: { name: 'x', defaultMode: 256 } },
        { name: 'h', hostPath: { path: '/x', type: '' } },
        {
          name: 'p',
          projected: {
            defaultMode: 420,
            sources: [
              { serviceAccountToken: { path: 't', expirationSeconds: 3600 } },
              { downwardAPI: { items: [{ path: 'n', fieldRef: { fieldPath: 'metadata.name', apiVersion: 'v1' } }] } },
            ],
          },
        },
        { name: 'd', downwardAPI: { defaultMode: 420 } },
        { name: 'v', ephemeral: { volumeClaimTemplate: { spec: { volumeMode: 'Filesystem' } } } },
        { name: 'im', image: { reference: 'a:b', pullPolicy: 'IfNotPresent' } },
      ],
    });
  });
  it('keep existing values', () => {
    const { spec } = run('v1', 'Pod', {
      spec: {
        containers: [{ name: 'a', image: 'x:latest', imagePullPolicy: 'Never' }],
        restartPolicy: 'Never',
        terminationGracePeriodSeconds: 0,
        enableServiceLinks: false,
      },
    });
    expect(spec).toMatchObject({
      containers: [{ imagePullPolicy: 'Never' }],
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 0,
      enableServiceLinks: false,
    });
  });
  it.each([
    ['nginx', 'Always'],
    ['nginx:latest', 'Always'],
    ['nginx:1', 'IfNotPresent'],
    ['localhost:5000/nginx', 'Always'],
    ['nginx:latest@sha256:a', 'IfNotPresent'],
  ])('pull %s %s', (image, policy) => {
    expect(run('v1', 'Pod', { spec: { containers: [{ name: 'a', image }] } }).spec['containers']).toMatchObject([
      { imagePullPolicy: policy },
    ]);
  });
  it('get pod-level requests from their containers', () => {
    const { spec } = run('v1', 'Pod', {
      spec: {
        resources: { limits: { cpu: '2', memory: '1Gi' } },
        containers: [
          { name: 'a', resources: { requests: { cpu: '100m' } } },
          { name: 'b', resources: { requests: { cpu: '200m' } } },
        ],
        initContainers: [
          { name: 's', restartPolicy: 'Always', resources: { requests: { cpu: '100m' } } },
          { name: 'i', resources: { requests: { cpu: '1' } } },
        ],
      },
    });
    expect(spec['resources']).toEqual({ limits: { cpu: '2', memory: '1Gi' }, requests: { cpu: '1100m', memory: '1Gi' } });
  });
  it('have their address in both fields', () => {
    expect(run('v1', 'Pod', { spec: {}, status: { podIP: '10.0.0.1' } }).status).toEqual({
      podIP: '10.0.0.1',
      podIPs: [{ ip: '10.0.0.1' }],
    });
  });
});

describe('workloads', () => {
  it('get the rolling update defaults of upstream', () => {
    expect(run('apps/v1', 'Deployment', { spec: { template: { spec: { containers: [] } } } }).spec).toEqual({
      replicas: 1,
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
      template: { spec: { ...template, containers: [] } },
    });
    expect(run('apps/v1', 'Deployment', { spec: { replicas: 0, strategy: { type: 'Recreate' } } }).spec).toMatchObject({
      replicas: 0,
      strategy: { type: 'Recreate' },
    });
    expect(run('apps/v1', 'DaemonSet', { spec: {} }).spec).toMatchObject({
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } },
    });
    const { updateStrategy } = run('apps/v1', 'StatefulSet', { spec: {} }).spec as { readonly updateStrategy: object };
    expect(updateStrategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { partition: 0 } });
    expect(run('apps/v1', 'StatefulSet', { spec: { volumeClaimTemplates: [{ spec: {} }] } }).spec).toMatchObject({
      podManagementPolicy: 'OrderedReady',
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      volumeClaimTemplates: [
        { kind: 'PersistentVolumeClaim', apiVersion: 'v1', spec: { volumeMode: 'Filesystem' }, status: { phase: 'Pending' } },
      ],
    });
    expect(run('apps/v1', 'ReplicaSet', {}).spec).toMatchObject({ replicas: 1 });
  });
  it('run jobs to completion', () => {
    const job = run('batch/v1', 'Job', { spec: { template: { metadata: { labels: { a: 'b' } }, spec: {} } } });
    expect(job.spec).toMatchObject({
      completions: 1,
      parallelism: 1,
      backoffLimit: 6,
      completionMode: 'NonIndexed',
      suspend: false,
      podReplacementPolicy: 'TerminatingOrFailed',
      manualSelector: false,
    });
    expect(job.metadata?.labels).toEqual({ a: 'b' });
    expect(run('batch/v1', 'Job', { spec: { parallelism: 3 } }).spec).not.toHaveProperty('completions');
    expect(run('batch/v1', 'CronJob', { spec: { jobTemplate: { spec: {} } } }).spec).not.toHaveProperty('jobTemplate.spec.manualSelector');
    expect(run('batch/v1', 'CronJob', { spec: {} }).spec).toMatchObject({
      concurrencyPolicy: 'Allow',
      successfulJobsHistoryLimit: 3,
      failedJobsHistoryLimit: 1,
      suspend: false,
    });
    expect(run('v1', 'ReplicationController', { spec: { template: { metadata: { labels: { a: 'b' } } } } })).toMatchObject({
      metadata: { labels: { a: 'b' } },
      spec: { replicas: 1, selector: { a: 'b' } },
    });
  });
  it('scale on CPU', () => {
    expect(
      run('autoscaling/v2', 'HorizontalPodAutoscaler', {
        spec: { maxReplicas: 3, behavior: { scaleDown: { stabilizationWindowSeconds: 5 } } },
      }).spec,
    ).toMatchObject({
      minReplicas: 1,
      metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } }],
      behavior: {
        scaleUp: { stabilizationWindowSeconds: 0, selectPolicy: 'Max' },
        scaleDown: { stabilizationWindowSeconds: 5, selectPolicy: 'Max' },
      },
    });
  });
});

describe('services and the rest', () => {
  it('default services by type', () => {
    expect(run('v1', 'Service', { spec: { ports: [{ port: 80 }, { port: 1, targetPort: 'x', protocol: 'UDP' }] } }).spec).toEqual({
      sessionAffinity: 'None',
      type: 'ClusterIP',
      internalTrafficPolicy: 'Cluster',
      ports: [
        { port: 80, protocol: 'TCP', targetPort: 80 },
        { port: 1, targetPort: 'x', protocol: 'UDP' },
      ],
    });
    expect(
      run('v1', 'Service', {
        spec: { type: 'LoadBalancer', sessionAffinity: 'ClientIP' },
        status: { loadBalancer: { ingress: [{ ip: '1.2.3.4' }] } },
      }),
    ).toMatchObject({
      spec: {
        allocateLoadBalancerNodePorts: true,
        externalTrafficPolicy: 'Cluster',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 10800 } },
      },
      status: { loadBalancer: { ingress: [{ ipMode: 'VIP' }] } },
    });
    expect(run('v1', 'Service', { spec: { type: 'ExternalName', externalName: 'x' } }).spec).toEqual({
      type: 'ExternalName',
      externalName: 'x',
      sessionAffinity: 'None',
    });
  });
  it('default small kinds', () => {
    expect(run('v1', 'Namespace', { metadata: { name: 'a' } })).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': 'a' } },
      status: { phase: 'Active' },
    });
    expect(run('v1', 'Node', { status: { capacity: { cpu: '1' } } }).status).toEqual({ capacity: { cpu: '1' }, allocatable: { cpu: '1' } });
    expect(run('v1', 'Secret', {})).toMatchObject({ type: 'Opaque' });
    expect(run('v1', 'Secret', { data: { a: 'eA==' }, stringData: { a: 'y', b: 'é' } })).toEqual({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      data: { a: 'eQ==', b: 'w6k=' },
    });
    expect(run('v1', 'LimitRange', { spec: { limits: [{ type: 'Container', max: { cpu: '2' }, min: { memory: '1Mi' } }] } }).spec).toEqual({
      limits: [
        {
          type: 'Container',
          max: { cpu: '2' },
          min: { memory: '1Mi' },
          default: { cpu: '2' },
          defaultRequest: { cpu: '2', memory: '1Mi' },
        },
      ],
    });
    expect(
      run('rbac.authorization.k8s.io/v1', 'RoleBinding', {
        roleRef: { kind: 'Role', name: 'x' },
        subjects: [
          { kind: 'User', name: 'a' },
          { kind: 'ServiceAccount', name: 'b' },
        ],
      }),
    ).toMatchObject({
      roleRef: { apiGroup: 'rbac.authorization.k8s.io' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io' }, { kind: 'ServiceAccount', name: 'b' }],
    });
    expect(run('networking.k8s.io/v1', 'NetworkPolicy', { spec: { egress: [{ ports: [{ port: 53 }] }] } }).spec).toEqual({
      policyTypes: ['Ingress', 'Egress'],
      egress: [{ ports: [{ port: 53, protocol: 'TCP' }] }],
    });
    expect(run('storage.k8s.io/v1', 'StorageClass', {})).toMatchObject({ reclaimPolicy: 'Delete', volumeBindingMode: 'Immediate' });
    expect(run('v1', 'PersistentVolume', { spec: {} })).toMatchObject({
      spec: { persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' },
      status: { phase: 'Pending' },
    });
    expect(run('discovery.k8s.io/v1', 'EndpointSlice', { ports: [{ port: 80 }] })['ports']).toEqual([
      { port: 80, name: '', protocol: 'TCP' },
    ]);
    expect(run('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { spec: { names: { kind: 'Foo', plural: 'foos' } } }).spec).toEqual({
      names: { kind: 'Foo', plural: 'foos', singular: 'foo', listKind: 'FooList' },
      conversion: { strategy: 'None' },
    });
    const plain = deepFreeze({ apiVersion: 'v1', kind: 'ConfigMap', data: {} });
    expect(applyDefaults(gvkOf(plain), plain)).toBe(plain);
  });
});

const folder = fileURLToPath(new URL('../../../../../shared/spec/roundtrip-v1.36/', import.meta.url));
describe.skipIf(!existsSync(folder))('samples of every kind', () => {
  it('are complete except for defaults that depend on their values', () => {
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.json'))) {
      const object = deepFreeze(JSON.parse(readFileSync(folder + name, 'utf8')) as KubeObject);
      const once = deepFreeze(applyDefaults(gvkOf(object), object));
      expect(applyDefaults(gvkOf(object), once), name).toBe(once);
    }
    expect(kinds.length).toBeGreaterThan(0);
  });
});
