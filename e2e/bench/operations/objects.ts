import type { ConfigMap, Pod } from '@oarlock/api/types/core-v1';

export const configMap = (name: string, text = 'x'.repeat(500)): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'default', name },
  data: { text },
});

/** A pod as the ReplicaSet controller creates it. */
export const pod = (name: string): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    namespace: 'default',
    name,
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
        volumeMounts: [{ name: 'api-access', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
      },
    ],
    serviceAccountName: 'default',
    volumes: [{ name: 'api-access', projected: { sources: [{ serviceAccountToken: { expirationSeconds: 3607, path: 'token' } }] } }],
  },
});

const at = '2026-01-01T00:00:00Z';
const condition = (type: string, status: string) => ({ type, status, lastTransitionTime: at });

/** The status of a running pod. `ready` alternates, so that each write changes the object. */
export const runningStatus = (ready: boolean): NonNullable<Pod['status']> => ({
  phase: 'Running',
  hostIP: '192.0.2.7',
  hostIPs: [{ ip: '192.0.2.7' }],
  podIP: '10.244.1.7',
  podIPs: [{ ip: '10.244.1.7' }],
  startTime: at,
  conditions: [condition('Initialized', 'True'), condition('Ready', ready ? 'True' : 'False'), condition('ContainersReady', 'True')],
  containerStatuses: [
    {
      name: 'main',
      image: 'registry.example/hello:1',
      imageID: 'sha256:1',
      ready,
      restartCount: 0,
      started: true,
      state: { running: { startedAt: at } },
    },
  ],
});
