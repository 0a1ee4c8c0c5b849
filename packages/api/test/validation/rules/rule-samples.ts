import { authorityPem, certificateRequest, stubRequest } from '@oarlock/testing/sample-certificates';
import { applyDefaults } from '../../../src/defaulting/apply-defaults.ts';
import { gvkOf, kindOf } from '../../../src/kinds.ts';
import type { KubeObject } from '../../../src/object.ts';
import { validateObject } from '../../../src/validation/validate-object.ts';

type Fields = Readonly<Record<string, unknown>>;

const podSpec = { containers: [{ name: 'c', image: 'i' }] };
const jobPod = { spec: { ...podSpec, restartPolicy: 'Never' } };
const selectedJob = {
  manualSelector: true,
  selector: { matchLabels: { app: 'x' } },
  template: { metadata: { labels: { app: 'x' } }, ...jobPod },
};
const labels = { app: 'x' };
const workload = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec } };

/** Objects without errors, by kind. A rule replaces fields of them. */
export const samples: Readonly<Record<string, Fields>> = {
  Pod: { apiVersion: 'v1', spec: podSpec },
  Service: { apiVersion: 'v1', spec: { ports: [{ port: 80 }], selector: labels } },
  Node: { apiVersion: 'v1', spec: {} },
  Endpoints: { apiVersion: 'v1', subsets: [] },
  PersistentVolume: {
    apiVersion: 'v1',
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      hostPath: { path: '/data' },
      persistentVolumeReclaimPolicy: 'Retain',
    },
  },
  PersistentVolumeClaim: { apiVersion: 'v1', spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '2Gi' } } } },
  StatefulSet: { apiVersion: 'apps/v1', spec: { ...workload, serviceName: 's' } },
  Deployment: { apiVersion: 'apps/v1', spec: workload },
  DaemonSet: { apiVersion: 'apps/v1', spec: workload },
  Job: { apiVersion: 'batch/v1', spec: { ...selectedJob, suspend: true } },
  CronJob: { apiVersion: 'batch/v1', spec: { schedule: '@daily', jobTemplate: { spec: { template: jobPod } } } },
  HorizontalPodAutoscaler: {
    apiVersion: 'autoscaling/v2',
    spec: { maxReplicas: 2, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' } },
  },
  NetworkPolicy: { apiVersion: 'networking.k8s.io/v1', spec: { podSelector: {} } },
  ServiceCIDR: { apiVersion: 'networking.k8s.io/v1', spec: { cidrs: ['10.0.0.0/24'] } },
  CertificateSigningRequest: {
    apiVersion: 'certificates.k8s.io/v1',
    spec: { request: certificateRequest, signerName: 'example.com/signer', usages: ['digital signature'] },
  },
  CSIDriver: { apiVersion: 'storage.k8s.io/v1', spec: {} },
  VolumeAttachment: { apiVersion: 'storage.k8s.io/v1', spec: { attacher: 'd', nodeName: 'n', source: { persistentVolumeName: 'v' } } },
  ResourceClaim: {
    apiVersion: 'resource.k8s.io/v1',
    spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'class' } }] } },
  },
  ResourceClaimTemplate: {
    apiVersion: 'resource.k8s.io/v1',
    spec: { spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'class' } }] } } },
  },
  ConfigMap: { apiVersion: 'v1', data: { a: 'b' } },
  Secret: { apiVersion: 'v1', type: 'Opaque', data: { a: 'eA==' } },
  Lease: { apiVersion: 'coordination.k8s.io/v1', spec: {} },
  ResourceQuota: { apiVersion: 'v1', spec: { hard: { pods: '1' } } },
  ControllerRevision: { apiVersion: 'apps/v1', data: { a: 1 }, revision: 1 },
  StorageClass: { apiVersion: 'storage.k8s.io/v1', provisioner: 'example.com/p', parameters: { a: 'b' } },
  VolumeAttributesClass: { apiVersion: 'storage.k8s.io/v1', driverName: 'example.com', parameters: { a: 'b' } },
  CSINode: { apiVersion: 'storage.k8s.io/v1', spec: { drivers: [{ name: 'd.example.com', nodeID: 'n', topologyKeys: ['a'] }] } },
  CSIStorageCapacity: { apiVersion: 'storage.k8s.io/v1', storageClassName: 's', nodeTopology: {} },
  PriorityClass: { apiVersion: 'scheduling.k8s.io/v1', value: 1 },
  RuntimeClass: { apiVersion: 'node.k8s.io/v1', handler: 'h' },
  IngressClass: { apiVersion: 'networking.k8s.io/v1', spec: { controller: 'example.com/c' } },
  RoleBinding: { apiVersion: 'rbac.authorization.k8s.io/v1', roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'r' } },
  ClusterRoleBinding: {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'r' },
  },
  IPAddress: {
    apiVersion: 'networking.k8s.io/v1',
    metadata: { name: '10.0.0.1' },
    spec: { parentRef: { resource: 'services', name: 's', namespace: 'd' } },
  },
  ClusterTrustBundle: { apiVersion: 'certificates.k8s.io/v1beta1', spec: { trustBundle: authorityPem } },
  PodCertificateRequest: {
    apiVersion: 'certificates.k8s.io/v1beta1',
    spec: {
      signerName: 'example.com/s',
      podName: 'p',
      podUID: 'u',
      serviceAccountName: 's',
      serviceAccountUID: 'u',
      nodeName: 'n',
      nodeUID: 'u',
      stubPKCS10Request: stubRequest,
    },
  },
  LeaseCandidate: {
    apiVersion: 'coordination.k8s.io/v1beta1',
    spec: { leaseName: 'l', binaryVersion: '1.36.0', emulationVersion: '1.36.0', strategy: 'OldestEmulationVersion' },
  },
  EndpointSlice: { apiVersion: 'discovery.k8s.io/v1', addressType: 'IPv4', endpoints: [], ports: [] },
  DeviceClass: { apiVersion: 'resource.k8s.io/v1', spec: {} },
  ResourceSlice: {
    apiVersion: 'resource.k8s.io/v1',
    spec: { driver: 'd.example.com', nodeName: 'n', pool: { name: 'n', generation: 1, resourceSliceCount: 1 }, devices: [{ name: 'd' }] },
  },
};

/** A rule, and a write of a sample that it rejects. */
export interface ValidationRule {
  /** The function of upstream, and the rule of it. */
  readonly rule: string;
  readonly kind: string;
  /** The fields that are replaced in the sample; undefined removes a field. */
  readonly fields: Fields;
  /** The fields of the stored object; absent for a creation. */
  readonly old?: Fields;
  readonly subresource?: string;
  /** The errors: `field: message`, which may end with `…`. */
  /** The present time in milliseconds. */
  readonly now?: number;
  readonly errors: readonly string[];
}

const isMap = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);

function merged(value: unknown, change: unknown): unknown {
  if (!isMap(value) || !isMap(change)) return change;
  const fields = Object.entries(change).map(([name, field]) => [name, merged(value[name], field)] as const);
  return { ...value, ...Object.fromEntries(fields) };
}

const withoutUndefined = (object: unknown): KubeObject => JSON.parse(JSON.stringify(object)) as KubeObject;

/** Returns the errors of the write, as `field: message`. */
export function errorsOf({ kind, fields, old, subresource, now }: Omit<ValidationRule, 'errors' | 'rule'>): readonly string[] {
  const gvk = gvkOf({ kind, ...samples[kind] } as unknown as KubeObject);
  const metadata = { name: 'x', uid: 'u', resourceVersion: '1', ...(kindOf(gvk)?.namespaced === true && { namespace: 'd' }) };
  const object = (change: Fields) =>
    applyDefaults(
      gvk,
      withoutUndefined(
        merged({ kind, ...samples[kind], metadata: { ...metadata, ...(samples[kind]?.['metadata'] as Fields | undefined) } }, change),
      ),
    );
  const errors = validateObject(gvk, object(fields), old && object(old), {
    ...(subresource !== undefined && { subresource }),
    ...(now !== undefined && { now }),
  });
  return errors.map(({ field, message }) => `${field}: ${message}`);
}
